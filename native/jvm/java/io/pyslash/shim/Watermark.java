package io.pyslash.shim;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.util.AccumulatorV2;
import scala.jdk.javaapi.CollectionConverters;

/** Spark's operator that collects event times, in a physical plan. */
public final class Watermark {
  private static final Class<?> NODE = Member.streaming(StatefulNodes.STATEFUL, "EventTimeWatermarkExec");
  private static final Method TIME = Member.method(NODE, "eventTime");
  private static final Method COLLECTED = Member.method(NODE, "eventTimeStats");

  private static final Class<?> COLLECTS = Member.streaming(StatefulNodes.STATEFUL, "EventTimeStatsAccum");
  private static final Class<?> STATS = Member.streaming(StatefulNodes.STATEFUL, "EventTimeStats");
  private static final Constructor<?> MAKE = Member.constructor(STATS); // greatest, least, mean, count
  private static final Method MERGE = Member.method(STATS, "merge", STATS);
  private static final Method COUNT = Member.method(STATS, "count");
  private static final Method LEAST = Member.method(STATS, "min");
  private static final Method GREATEST = Member.method(STATS, "max");
  private static final Method MEAN = Member.method(STATS, "avg");

  private Watermark() {}

  public static boolean is(SparkPlan node) {
    return NODE.isInstance(node);
  }

  /** All such operators of a plan, from the top down. */
  public static List<SparkPlan> in(SparkPlan plan) {
    List<SparkPlan> found = new ArrayList<>();
    if (is(plan)) {
      found.add(plan);
    }
    CollectionConverters.asJava(plan.children()).forEach(child -> found.addAll(in(child)));
    return found;
  }

  /** The event time of such an operator. */
  public static Attribute time(SparkPlan operator) {
    return Member.call(TIME, operator);
  }

  /** What such an operator has collected. */
  public static AccumulatorV2<?, ?> times(SparkPlan operator) {
    return Member.call(COLLECTED, operator);
  }

  /** Of event times; in milliseconds. */
  public record Collected(long count, long least, long greatest, double mean) {}

  /** What such an operator has collected, as values. */
  public static Collected collected(SparkPlan operator) {
    Object stats = times(operator).value();
    return new Collected(
        Member.<Long>call(COUNT, stats),
        Member.<Long>call(LEAST, stats),
        Member.<Long>call(GREATEST, stats),
        Member.<Double>call(MEAN, stats));
  }

  /** The newest event time (milliseconds) that such operators have collected in a task so far; the least long: none. */
  public static long newest(TaskContext task) {
    return CollectionConverters.asJava(task.taskMetrics().accumulators()).stream()
        .filter(one -> COLLECTS.isInstance(one) && !one.isZero())
        .mapToLong(one -> Member.<Long>call(GREATEST, one.value()))
        .max()
        .orElse(Long.MIN_VALUE);
  }

  /** Has such an operator collect these as well; milliseconds. */
  public static void collect(SparkPlan operator, long count, long least, long greatest, double mean) {
    Object added = Member.make(MAKE, greatest, least, mean, count);
    Member.call(MERGE, times(operator).value(), added);
  }
}
