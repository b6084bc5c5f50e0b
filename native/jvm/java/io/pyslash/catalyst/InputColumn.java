package io.pyslash.catalyst;

import com.fasterxml.jackson.databind.JsonNode;
import io.pyslash.core.Json;
import java.util.ArrayList;
import java.util.List;

/**
 * A column of an operator's input as Python asks for it.
 *
 * @param slot the number of a key or, from there on, of a function's input, all functions' inputs in a row
 * @param nullable whether it may be null
 */
record InputColumn(int slot, boolean nullable) {
  /** From JSON: a list of objects. */
  static List<InputColumn> parse(String json) {
    List<InputColumn> columns = new ArrayList<>();
    for (JsonNode column : Json.parse(json)) {
      columns.add(new InputColumn(column.required("slot").intValue(), column.required("nullable").booleanValue()));
    }
    return columns;
  }
}
