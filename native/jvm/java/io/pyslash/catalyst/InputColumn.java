package io.pyslash.catalyst;

import com.fasterxml.jackson.databind.JsonNode;
import io.pyslash.core.Json;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.types.DataType;

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

  /**
   * What it carries: the value of one that needs more than its nulls, if there is one. Where nobody reads it, it is null, or
   * any value if it must not be.
   */
  Expression among(List<RowValue> values) {
    List<RowValue> readers = slots.stream().map(values::get).toList();
    Expression value =
        readers.stream().filter(one -> !one.isCounted()).findFirst().orElse(readers.get(0)).value();
    Expression where = RowValue.anywhere(readers);
    if (where == null) {
      return value;
    }
    DataType type = value.dataType();
    return new If(where, value, nullable ? Literal$.MODULE$.create(null, type) : NativeTypes.zero(type));
  }
}
