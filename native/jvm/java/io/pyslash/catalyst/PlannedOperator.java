package io.pyslash.catalyst;

import com.fasterxml.jackson.databind.JsonNode;
import io.pyslash.core.Json;
import io.pyslash.shim.SparkNodes;
import io.pyslash.shim.StatefulNodes;
import io.pyslash.shim.Watermark;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.PartitioningCollection;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition$;
import org.apache.spark.sql.catalyst.plans.physical.UnspecifiedDistribution$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkPlan$;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** An operator of a streaming query that keeps state, cut out of Spark's physical plan: what is below it, and above. */
public abstract class PlannedOperator {
  protected static final String WATERMARK_KEY = "spark.watermarkDelayMs";
  protected static final long NO_WATERMARK = Long.MIN_VALUE;

  private final SparkPlan plan;
  protected final SparkPlan operator;

  /** The operator of this plan. */
  protected PlannedOperator(SparkPlan plan, SparkPlan operator) {
    this.plan = plan;
    this.operator = operator;
  }

  /** What is executed below it. */
  protected abstract List<SparkPlan> below();

  /**
   * The rows of each input that may come too late, as the input gives them, and behind their columns the watermark
   * (microseconds) by which a row does. No task has executed these plans, and Spark looks for no figures in them.
   */
  public List<SparkPlan> closings() {
    List<SparkPlan> found = new ArrayList<>();
    for (SparkPlan input : below()) {
      CollectionConverters.asJava(input.output()).stream()
          .filter(column -> column.metadata().contains(WATERMARK_KEY))
          .findFirst()
          .ifPresent(time -> found.add(WindowedInput.withColumn(WindowedInput.closing(endOf(time)), input).clone()));
    }
    return found;
  }

  private static Expression endOf(Attribute time) {
    boolean isWindow = time.dataType() instanceof StructType;
    return isWindow ? new GetStructField(time, 1, Option.empty()) : time;
  }

  /** All that decides which rows the operator takes, as text. */
  public abstract String fingerprint();

  /** Rows that are complete by this (milliseconds) are late; the least long: none are. */
  protected abstract long lateWatermark();

  /** Groups that are complete by this (milliseconds) are forgotten; the least long: none are. */
  protected abstract long evictionWatermark();

  /**
   * The operator's micro-batch: the watermarks for late rows and for eviction, whether it has no input, and whether Spark
   * collects the event times of all rows.
   */
  record Batch(long lateMs, long evictionMs, boolean withoutRows, boolean collectsTimes) {}

  /** The {@link Batch}, in JSON. */
  public String batch() {
    boolean collectsTimes = below().stream().allMatch(PlannedOperator::collectsTimes);
    return Json.of(new Batch(lateWatermark(), evictionWatermark(), isWithoutRows(), collectsTimes));
  }

  /** Whether every row of a stream passes an operator that collects event times. */
  private static boolean collectsTimes(SparkPlan node) {
    if (Watermark.is(node)) {
      return true;
    }
    return node.children().isEmpty()
        ? isStatic(node)
        : CollectionConverters.asJava(node.children()).stream().allMatch(PlannedOperator::collectsTimes);
  }

  private static boolean isStatic(SparkPlan leaf) {
    return leaf.logicalLink().isDefined() && !leaf.logicalLink().get().isStreaming();
  }

  /** Spark's operators that collect the event times of the input. */
  private List<SparkPlan> watermarks() {
    return below().stream().flatMap(input -> Watermark.in(input).stream()).map(Origin::of).toList();
  }

  /** What each of them has collected: a list of {@link Watermark.Collected}, in JSON. */
  public String eventTimes() {
    return Json.of(watermarks().stream().map(Watermark::collected).toList());
  }

  /** Has one of them, from the top down, collect these as well; milliseconds. */
  public void addEventTimes(int watermark, long count, long least, long greatest, double mean) {
    Watermark.collect(watermarks().get(watermark), count, least, greatest, mean);
  }

  /** What they have collected is not to move the watermark. */
  public void forgetEventTimes() {
    watermarks().forEach(operator -> Watermark.times(operator).reset());
  }

  /** Whether the micro-batch has no input, as Spark runs one where only the watermark has moved. */
  private boolean isWithoutRows() {
    // Static tables bring no rows of their own: Spark refuses joins that would keep them.
    return leaves().stream()
        .filter(leaf -> !isStatic(leaf))
        .allMatch(leaf -> leaf instanceof LocalTableScanExec local && local.rows().isEmpty());
  }

  /** Forget what Spark has counted below, before the rows are read once more. */
  public void resetCounts() {
    below().forEach(PlannedOperator::resetCounts);
  }

  /** What is observed starts over by itself, and what is broadcast is not made again. */
  private static void resetCounts(SparkPlan node) {
    if (node instanceof Exchange) {
      return;
    }
    SparkPlan counted = Origin.of(node);
    CollectionConverters.asJava(counted.metrics()).values().forEach(SQLMetric::reset);
    if (Watermark.is(counted)) {
      Watermark.times(counted).reset();
    }
    CollectionConverters.asJava(node.children()).forEach(PlannedOperator::resetCounts);
  }

  private List<SparkPlan> leaves() {
    return below().stream().flatMap(input -> CollectionConverters.asJava(input.collectLeaves()).stream()).toList();
  }

  /** Operators with their expressions, and the code of Python functions among them. */
  protected static void describe(SparkPlan node, StringBuilder text) {
    text.append(node.nodeName()).append('\n');
    for (Expression expression : CollectionConverters.asJava(node.expressions())) {
      text.append("  ").append(StableSql.of(expression)).append('\n');
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

  /** Spark's figures of the operator, as its progress, its listeners and its UI show them: JSON, each by its name. */
  public void count(String metrics) {
    JsonNode told = Json.parse(metrics);
    told.fieldNames().forEachRemaining(name -> metric(name).set(told.required(name).longValue()));
  }

  /** A metric of Spark's operator. */
  protected final SQLMetric metric(String name) {
    return Origin.of(operator).metrics().apply(name);
  }

  /** A watermark in milliseconds. */
  protected static long millis(Option<?> watermark) {
    return watermark.isDefined() ? ((Number) watermark.get()).longValue() : NO_WATERMARK;
  }

  /** The physical plan of merged rows, which tells of no logical plan that it might be a static table. */
  protected static SparkPlan planned(Dataset<Row> merged) {
    boolean isLocal = merged.queryExecution().analyzed() instanceof LocalRelation;
    SparkPlan plan = isLocal ? LocalRows.plan(merged) : merged.queryExecution().executedPlan();
    for (SparkPlan leaf : CollectionConverters.asJava(plan.collectLeaves())) {
      leaf.unsetTagValue(SparkPlan$.MODULE$.LOGICAL_PLAN_TAG());
      leaf.unsetTagValue(SparkPlan$.MODULE$.LOGICAL_PLAN_INHERITED_TAG());
    }
    return plan;
  }

  /**
   * The whole plan, with another one, made to stand in generated code or not, in the place of one of its operators: with the
   * partitions of that one, if something above is planned for them, such as a join with a static table by the same key.
   */
  protected final SparkPlan with(SparkPlan replaced, Function<Boolean, SparkPlan> other) {
    Function<Boolean, SparkPlan> shuffled = inStage -> placed(likePlanned(other.apply(false), replaced), inStage);
    return replaced(plan, replaced, isReliedOn(plan, replaced) ? shuffled : other, false);
  }

  /** Whether a node above is planned for the operator's partitions: one that Spark runs, before the next shuffle. */
  private static boolean isReliedOn(SparkPlan plan, SparkPlan operator) {
    List<SparkPlan> ours = StatefulNodes.of(plan);
    List<SparkPlan> path = new ArrayList<>(List.of(plan));
    while (path.get(0) != operator) { // from the operator up
      List<SparkPlan> children = CollectionConverters.asJava(path.get(0).children());
      path.add(0, children.stream().filter(child -> contains(child, operator)).findFirst().get());
    }
    for (int at = 1; at < path.size(); at++) {
      SparkPlan node = path.get(at);
      if (node instanceof Exchange || node instanceof BaseAggregateExec || ours.contains(node)) {
        return false;
      }
      int child = node.children().indexOf(path.get(at - 1));
      if (!(node.requiredChildDistribution().apply(child) instanceof UnspecifiedDistribution$)) {
        return true;
      }
    }
    return false;
  }

  /** Rows with the partitions of an operator, and the order in them. */
  private static SparkPlan likePlanned(SparkPlan rows, SparkPlan operator) {
    Partitioning partitioning = operator.outputPartitioning();
    while (partitioning instanceof PartitioningCollection several) { // of a join by equal keys: the same
      partitioning = several.partitionings().head();
    }
    if (partitioning.numPartitions() == 1) { // whatever it is by: columns that nothing above reads are not among the rows
      partitioning = SinglePartition$.MODULE$;
    }
    SparkPlan shuffled = SparkNodes.shuffled(rows, partitioning);
    Seq<SortOrder> order = operator.outputOrdering();
    return order.isEmpty() ? shuffled : new SortExec(order, false, shuffled, 0);
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
  protected static SparkPlan placed(SparkPlan rows, boolean inStage) {
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
