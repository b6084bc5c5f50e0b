package io.pyslash.shim;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkPlan;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The operators of a plan that keep state between micro-batches. Their package is another one since 4.1. */
public final class StatefulNodes {
  static final String STATEFUL = "operators.stateful.";
  private static final Class<?> KEEPS_STATE = Member.streaming(STATEFUL, "StateStoreWriter");
  private static final Class<?> SAVES_SESSIONS = Member.streaming(STATEFUL, "SessionWindowStateStoreSaveExec");
  private static final Class<?> RESTORES = Member.streaming(STATEFUL, "StateStoreRestoreExec");
  private static final Class<?> RESTORES_SESSIONS = Member.streaming(STATEFUL, "SessionWindowStateStoreRestoreExec");
  private static final Class<?> WITHIN_WATERMARK =
      Member.streaming(STATEFUL, "StreamingDeduplicateWithinWatermarkExec");
  private static final Class<?> WATERMARKED = Member.streaming(STATEFUL, "WatermarkSupport");
  private static final Class<?> LIMITS = Member.streaming(STATEFUL, "StreamingGlobalLimitExec");
  private static final Method KEYS = Member.method(WATERMARKED, "keyExpressions");
  private static final Method LATE = Member.method(WATERMARKED, "eventTimeWatermarkForLateEvents");
  private static final Method EVICTION = Member.method(WATERMARKED, "eventTimeWatermarkForEviction");

  // Of a logical plan, in all releases; and joins.
  private static final Set<String> LOGICAL =
      Set.of(
          "Aggregate",
          "Distinct",
          "Deduplicate",
          "DeduplicateWithinWatermark",
          "FlatMapGroupsWithState",
          "FlatMapGroupsInPandasWithState",
          "TransformWithState",
          "TransformWithStateInPandas",
          "TransformWithStateInPySpark",
          "GlobalLimit");

  private StatefulNodes() {}

  /** Whether a streaming query over these rows keeps state. */
  public static boolean areIn(LogicalPlan rows) {
    List<LogicalPlan> children = CollectionConverters.asJava(rows.children());
    boolean keepsState =
        rows instanceof Join
            ? children.stream().allMatch(LogicalPlan::isStreaming)
            : rows.isStreaming() && LOGICAL.contains(rows.getClass().getSimpleName());
    return keepsState || children.stream().anyMatch(StatefulNodes::areIn);
  }

  /** Each behind those below it; but no limit above all of them: Spark runs it over their rows, and keeps its one count. */
  public static List<SparkPlan> of(SparkPlan plan) {
    List<SparkPlan> found = all(plan);
    int last = found.size() - 1;
    boolean isLimited = last > 0 && LIMITS.isInstance(found.get(last)) && all(found.get(last)).size() == found.size();
    return isLimited ? found.subList(0, last) : found;
  }

  private static List<SparkPlan> all(SparkPlan plan) {
    List<SparkPlan> found = new ArrayList<>();
    for (SparkPlan child : CollectionConverters.asJava(plan.children())) {
      found.addAll(all(child));
    }
    if (KEEPS_STATE.isInstance(plan)) {
      found.add(plan);
    }
    return found;
  }

  /** Whether it saves the state of sessions. */
  public static boolean savesSessions(SparkPlan node) {
    return SAVES_SESSIONS.isInstance(node);
  }

  /** Whether it joins rows of an aggregation with its state. */
  public static boolean restores(SparkPlan node) {
    return RESTORES.isInstance(node) || RESTORES_SESSIONS.isInstance(node);
  }

  /** Whether a deduplication keeps keys for a delay after the time of the row that was emitted. */
  public static boolean isWithinWatermark(SparkPlan node) {
    return WITHIN_WATERMARK.isInstance(node);
  }

  /** What groups the rows of an aggregation or a deduplication. */
  public static Seq<Attribute> keys(SparkPlan node) {
    return Member.call(KEYS, node);
  }

  /** The watermark for late rows of an aggregation or a deduplication, in milliseconds. */
  public static Option<?> lateWatermark(SparkPlan node) {
    return Member.call(LATE, node);
  }

  /** The watermark for eviction of an aggregation or a deduplication, in milliseconds. */
  public static Option<?> evictionWatermark(SparkPlan node) {
    return Member.call(EVICTION, node);
  }
}
