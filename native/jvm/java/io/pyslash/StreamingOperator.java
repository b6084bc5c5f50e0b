package io.pyslash;

import io.pyslash.FileScan.OnlySpark;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.SQLExecutionRDD;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkPlan$;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Product;
import scala.jdk.javaapi.CollectionConverters;

/** An operator of a streaming query that keeps state, found in Spark's physical plan and taken apart around its state. */
public abstract class StreamingOperator {
  static final String WATERMARK_KEY = "spark.watermarkDelayMs";
  static final long NO_WATERMARK = Long.MIN_VALUE;

  private final SparkPlan plan;
  private final SparkPlan operator;

  /** The operator of this plan. */
  StreamingOperator(SparkPlan plan, SparkPlan operator) {
    this.plan = plan;
    this.operator = operator;
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
    return input().inlined(expression).sql();
  }

  /** Spark's operators that collect the event times of the input. */
  public List<SparkPlan> watermarks() {
    return input().watermarks();
  }

  /**
   * What has to be executed for the rows of the update: the event time, then these columns.
   *
   * @param columns each, behind a blank, the number of a key or, from there on, of a function's input, all functions'
   *     inputs in a row; `?` behind it: it may be null
   * @throws OnlySpark a column may be null that was planned as never null
   */
  public SparkPlan input(String columns) {
    List<Expression> values = new ArrayList<>(keys());
    inputs().forEach(values::addAll);
    List<NamedExpression> projected = new ArrayList<>();
    projected.add(input().moment());
    input().sessionEnd().ifPresent(projected::add);
    for (String text : columns.isEmpty() ? new String[0] : columns.split(" ")) {
      boolean nullable = text.endsWith("?");
      int at = Integer.parseInt(nullable ? text.substring(0, text.length() - 1) : text);
      Expression column = values.get(at);
      if (column.nullable() && !nullable) {
        throw new OnlySpark(
            describe(column) + " may be null in this micro-batch, and was never null when the query began");
      }
      projected.add(WindowedInput.alias(column, "column" + projected.size()));
    }
    return input().plan(projected);
  }

  /** Whether the micro-batch has no input, as Spark runs one where only the watermark has moved. */
  public boolean isWithoutRows() {
    // Static tables bring no rows of their own: Spark refuses joins that would keep them.
    return CollectionConverters.asJava(input().below().collectLeaves()).stream()
        .filter(leaf -> leaf.logicalLink().isEmpty() || leaf.logicalLink().get().isStreaming())
        .allMatch(leaf -> leaf instanceof LocalTableScanExec local && local.rows().isEmpty());
  }

  /** Forget what Spark has counted below, before the rows are read once more. */
  public void resetCounts() {
    for (SparkPlan watermark : watermarks()) {
      Watermark.times(watermark).reset();
    }
    for (SparkPlan leaf : CollectionConverters.asJava(input().below().collectLeaves())) {
      CollectionConverters.asJava(leaf.metrics()).values().forEach(SQLMetric::reset);
    }
  }

  /**
   * All that decides which rows the operator takes, as text: the operators below with their expressions, and the code of
   * Python functions among them.
   */
  public String fingerprint() {
    StringBuilder text = new StringBuilder();
    describe(input().plan(List.of()), text);
    keys().forEach(key -> text.append(key.sql()).append('\n'));
    for (List<Expression> values : inputs()) {
      if (values.isEmpty()) {
        text.append("*\n");
      }
      values.forEach(value -> text.append(value.sql()).append('\n'));
    }
    return text.toString();
  }

  private static void describe(SparkPlan node, StringBuilder text) {
    text.append(node.nodeName()).append('\n');
    for (Expression expression : CollectionConverters.asJava(node.expressions())) {
      text.append("  ").append(expression.sql()).append('\n');
      expression.foreach(
          one -> {
            if (one instanceof PythonUDF function) {
              text.append("  ").append(function.func().command().hashCode()).append('\n');
            }
            return null;
          });
    }
    CollectionConverters.asJava(node.children()).forEach(child -> describe(child, text));
  }

  /** Spark's figures of the operator, as its progress, its listeners and its UI show them: `name=value`, by blanks. */
  public void count(String metrics) {
    for (String metric : metrics.split(" ")) {
      String[] named = metric.split("=");
      operator.metrics().apply(named[0]).set(Long.parseLong(named[1]));
    }
  }

  /** A watermark (milliseconds) that is this field of the operator's. */
  long watermark(int field) {
    Option<?> watermark = (Option<?>) ((Product) operator).productElement(field);
    return watermark.isDefined() ? ((Number) watermark.get()).longValue() : NO_WATERMARK;
  }

  /** The physical plan of merged rows, which tells of no logical plan that it might be a static table. */
  static SparkPlan planned(Dataset<Row> merged) {
    boolean isLocal = merged.queryExecution().analyzed() instanceof LocalRelation;
    SparkPlan plan = isLocal ? LocalRows.plan(merged) : merged.queryExecution().executedPlan();
    for (SparkPlan leaf : CollectionConverters.asJava(plan.collectLeaves())) {
      leaf.unsetTagValue(SparkPlan$.MODULE$.LOGICAL_PLAN_TAG());
      leaf.unsetTagValue(SparkPlan$.MODULE$.LOGICAL_PLAN_INHERITED_TAG());
    }
    return plan;
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

  /**
   * The rows of the whole plan, with merged rows in the place of the state: by a job when they are asked for, or at hand if
   * they need none.
   *
   * @param merged as {@link #over} takes them
   * @param schema as Spark has it for the micro-batch: its optimizer may know more of what is never null
   */
  public Dataset<Row> above(SparkSession session, Dataset<Row> merged, StructType schema) {
    SparkPlan rows = over(merged);
    List<InternalRow> few = LocalRows.of(rows);
    return few != null
        ? RowsDataset.of(session, few, schema)
        : RowsDataset.of(session, new SQLExecutionRDD(rows.execute(), session.sessionState().conf()), schema);
  }

  /** The whole plan, with another one, made to stand in generated code or not, in the place of one of its operators. */
  SparkPlan with(SparkPlan replaced, Function<Boolean, SparkPlan> other) {
    return replaced(plan, replaced, other, false);
  }

  private static SparkPlan replaced(
      SparkPlan node, SparkPlan operator, Function<Boolean, SparkPlan> other, boolean inStage) {
    if (node == operator) {
      return other.apply(inStage);
    }
    boolean below = node instanceof WholeStageCodegenExec || inStage && !(node instanceof InputAdapter);
    List<SparkPlan> children = new ArrayList<>(CollectionConverters.asJava(node.children()));
    for (int i = 0; i < children.size(); i++) {
      if (contains(children.get(i), operator)) {
        children.set(i, replaced(children.get(i), operator, other, below));
      }
    }
    return node.withNewChildren(CollectionConverters.asScala(children).toSeq());
  }

  /** A plan of its own as part of generated code, or not. */
  static SparkPlan placed(SparkPlan rows, boolean inStage) {
    if (!inStage) {
      return rows;
    }
    return rows instanceof WholeStageCodegenExec stage ? stage.child() : new InputAdapter(rows);
  }

  private static boolean contains(SparkPlan node, SparkPlan wanted) {
    return node == wanted
        || CollectionConverters.asJava(node.children()).stream().anyMatch(child -> contains(child, wanted));
  }
}
