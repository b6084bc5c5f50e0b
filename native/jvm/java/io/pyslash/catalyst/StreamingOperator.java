package io.pyslash.catalyst;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** An operator that keeps groups of its rows, found in Spark's physical plan and taken apart around its state. */
public abstract class StreamingOperator extends PlannedOperator {
  /** The operator of this plan. */
  StreamingOperator(SparkPlan plan, SparkPlan operator) {
    super(plan, operator);
  }

  /** What it takes. */
  abstract WindowedInput input();

  /** What groups rows, but windows. */
  public abstract List<Expression> keys();

  /** What each function reads of a row; nothing if it counts every row. */
  public abstract List<List<Expression>> inputs();

  /** The attribute that is the event time; a moment in the place of one, where there is none. */
  public Attribute time() {
    return input().time();
  }

  /** The SQL of a key, of an input or of the event time, over the columns that the query's input has. */
  public String describe(Expression expression) {
    return StableSql.of(input().inlined(expression));
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
    List<Expression> values = new ArrayList<>(keys());
    inputs().forEach(values::addAll);
    List<NamedExpression> projected = new ArrayList<>();
    projected.add(input().moment());
    input().sessionEnd().ifPresent(projected::add);
    for (InputColumn wanted : InputColumn.parse(columns)) {
      Expression column = values.get(wanted.slot());
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
    return text.toString();
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
