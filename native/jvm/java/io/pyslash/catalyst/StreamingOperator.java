package io.pyslash.catalyst;

import com.fasterxml.jackson.databind.JsonNode;
import io.pyslash.core.Json;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** An operator that keeps groups of its rows, found in Spark's physical plan and taken apart around its state. */
public abstract class StreamingOperator extends PlannedOperator {
  /**
   * What crosses into native code: the types of the keys, the functions and the types of what they read, and the gap of
   * sessions. The columns of a query's state are of one shape, whatever Spark's optimizer makes of a micro-batch's rows.
   */
  record Shape(List<String> keys, List<String> functions, List<List<String>> inputs, long gap) {}

  /** The operator of this plan. */
  StreamingOperator(SparkPlan plan, SparkPlan operator) {
    super(plan, operator);
  }

  /** What it takes. */
  abstract WindowedInput input();

  /** What groups rows, but windows. */
  public abstract List<Expression> keys();

  /** What each function reads of a row; nothing if it counts every row. */
  abstract List<List<RowValue>> read();

  /** What reads that, by a name. */
  abstract List<String> functionNames();

  /** The expressions of what each function reads. */
  public List<List<Expression>> inputs() {
    return read().stream().map(values -> values.stream().map(RowValue::value).toList()).toList();
  }

  /** Of each slot that an {@link InputColumn} may have. */
  final List<RowValue> slots() {
    List<RowValue> slots = new ArrayList<>();
    keys().forEach(key -> slots.add(new RowValue(key)));
    read().forEach(slots::addAll);
    return slots;
  }

  /** The {@link Shape}, in JSON. */
  public String shape() {
    List<List<String>> inputs = inputs().stream().map(StreamingOperator::types).toList();
    return Json.of(new Shape(types(keys()), functionNames(), inputs, input().gap()));
  }

  private static List<String> types(List<Expression> values) {
    return values.stream().map(value -> value.dataType().typeName()).toList();
  }

  /**
   * From now on functions read as many values of the micro-batch's rows, of the same types, as when the query began.
   *
   * @param began the {@link #shape} of then
   * @throws OnlySpark Spark has optimized this micro-batch into something else
   */
  public void keepShape(String began) {
    JsonNode then = Json.parse(began);
    if (Json.strings(then.required("functions")).equals(functionNames())) {
      readAs(then);
    }
    String now = shape();
    if (!now.equals(began)) {
      throw new OnlySpark("this micro-batch is optimized to " + now + ", and the query began with " + began);
    }
  }

  /** Has functions read what they read in a query of this {@link Shape}, as far as that is possible. */
  void readAs(JsonNode shape) {}

  /** The attribute that is the event time; a moment in the place of one, where there is none. */
  public Attribute time() {
    return input().time();
  }

  /** The SQL of a key, of an input or of the event time, over the columns that the query's input has. */
  public String describe(Expression expression) {
    return input().sql(expression);
  }

  /** The type whose values a key or an input has as bytes, without the names of fields; empty if it has none. */
  public String typeInBytes(Expression expression) {
    Option<Expression> bytes = expression.find(part -> part instanceof KeyBytes || part instanceof OrderBytes);
    return bytes.isEmpty() ? "" : nameless(((UnaryFunction) bytes.get()).child().dataType());
  }

  private static String nameless(DataType type) {
    if (type instanceof StructType struct) {
      Stream<String> fields = Arrays.stream(struct.fields()).map(field -> nameless(field.dataType()));
      return fields.collect(Collectors.joining(", ", "STRUCT<", ">"));
    }
    if (type instanceof ArrayType array) {
      return "ARRAY<" + nameless(array.elementType()) + ">";
    }
    if (type instanceof MapType map) {
      return "MAP<" + nameless(map.keyType()) + ", " + nameless(map.valueType()) + ">";
    }
    return type.sql();
  }

  @Override
  protected List<SparkPlan> below() {
    return List.of(input().below());
  }

  /**
   * What has to be executed for the rows of the update: the event time, then these columns.
   *
   * @param columns a list of {@link InputColumn}, in JSON
   * @throws OnlySpark a column may be null that was planned as never null
   */
  public SparkPlan input(String columns) {
    List<RowValue> slots = slots();
    List<NamedExpression> projected = new ArrayList<>();
    projected.add(input().moment());
    input().sessionEnd().ifPresent(projected::add);
    for (InputColumn wanted : InputColumn.parse(columns)) {
      Expression column = wanted.among(slots);
      if (column.nullable() && !wanted.nullable()) {
        throw new OnlySpark(
            describe(column) + " may be null in this micro-batch, and was never null when the query began");
      }
      projected.add(WindowedInput.alias(column, "column" + projected.size()));
    }
    return input().plan(projected);
  }

  @Override
  public List<SparkPlan> closings() {
    return List.of(input().closing().clone());
  }

  /** The operators below with their expressions, and those that it evaluates itself. */
  @Override
  public String fingerprint() {
    StringBuilder text = new StringBuilder();
    describe(input().plan(List.of()), text);
    keys().forEach(key -> text.append(StableSql.of(key)).append('\n'));
    for (List<Expression> values : inputs()) {
      if (values.isEmpty()) {
        text.append("*\n");
      }
      values.forEach(value -> text.append(StableSql.of(value)).append('\n'));
    }
    return StableSql.numbered(text.toString());
  }

  /**
   * The whole plan, with merged rows in the place of the state.
   *
   * @param merged columns: two that may be the bounds of a window, and what the state gives; more are ignored
   */
  public abstract SparkPlan over(Dataset<Row> merged);

  /** The whole plan of a query that has not started, with no rows in the place of the state, of columns like these. */
  public SparkPlan overNothing(SparkSession session, String columns) {
    StructType schema = (StructType) DataType.fromJson(columns);
    return session.withActive(() -> over(session.createDataFrame(List.of(), schema))); // whose the plan's nodes are
  }
}
