package io.pyslash.catalyst;

import com.fasterxml.jackson.databind.JsonNode;
import io.pyslash.core.Json;
import java.util.ArrayList;
import java.util.List;

/**
 * A column of an operator's input as Python asks for it.
 *
 * @param slots the numbers of the keys or, from there on, of the functions' inputs, all functions' inputs in a row, that read
 *     it: when the query began, their expressions were the same
 * @param nullable whether it may be null
 */
record InputColumn(List<Integer> slots, boolean nullable) {
  /** From JSON: a list of objects. */
  static List<InputColumn> parse(String json) {
    List<InputColumn> columns = new ArrayList<>();
    for (JsonNode column : Json.parse(json)) {
      List<Integer> slots = new ArrayList<>();
      column.required("slots").forEach(slot -> slots.add(slot.intValue()));
      columns.add(new InputColumn(slots, column.required("nullable").booleanValue()));
    }
    return columns;
  }

  /** The first of those that read it. */
  int slot() {
    return slots.get(0);
  }

  /** What it carries: the value of one that needs more than its nulls, if there is one. */
  RowValue among(List<RowValue> values) {
    return slots.stream().map(values::get).filter(value -> !value.isCounted()).findFirst().orElse(values.get(slot()));
  }
}
