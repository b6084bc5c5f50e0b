package io.pyslash.ingest;

import com.fasterxml.jackson.databind.JsonNode;
import io.pyslash.agent.AgentOrder;
import io.pyslash.core.Json;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/**
 * An update job as Python asks for it.
 *
 * @param order what every task is told
 * @param keepsTimeless whether rows without an event time count
 */
public record UpdateSpec(UpdateOrder order, boolean keepsTimeless, Reads reads) {
  /** From JSON, with bytes in Base64: the text of the plan, and what else the fields are called in Python. */
  public static UpdateSpec parse(String json) {
    JsonNode told = Json.parse(json);
    try {
      UpdateOrder order =
          new UpdateOrder(
              told.required("plan").textValue().getBytes(StandardCharsets.US_ASCII),
              told.required("watermark_us").longValue(),
              told.required("query").binaryValue(),
              told.required("epoch").longValue(),
              AgentOrder.of(told.required("agent")));
      return new UpdateSpec(
          order,
          told.required("keeps_timeless").booleanValue(),
          new Reads(
              told.required("reads_json").booleanValue(),
              told.required("reads_csv").booleanValue(),
              told.required("reads_avro").booleanValue(),
              told.required("reads_kafka").booleanValue()));
    } catch (IOException error) {
      throw new IllegalArgumentException("a field of an update is not Base64: " + error.getMessage());
    }
  }
}
