package io.pyslash.core;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import java.util.ArrayList;
import java.util.List;

/**
 * What crosses between Java and Python in several parts. py4j would make a call for each element of a list and for each field
 * of an object, and a call costs 0.1 to 0.4 ms of a micro-batch; JSON takes one.
 */
public final class Json {
  private static final ObjectMapper MAPPER =
      new ObjectMapper().setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE);

  private Json() {}

  /** A record, a list or a map, for Python; names are spelled as there. */
  public static String of(Object value) {
    try {
      return MAPPER.writeValueAsString(value);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** What Python tells. */
  public static JsonNode parse(String json) {
    try {
      return MAPPER.readTree(json);
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException("this is no JSON: " + error.getMessage());
    }
  }

  /** A list of strings. */
  public static List<String> strings(JsonNode list) {
    List<String> strings = new ArrayList<>();
    list.forEach(one -> strings.add(one.textValue()));
    return strings;
  }
}
