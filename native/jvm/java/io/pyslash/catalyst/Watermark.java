package io.pyslash.catalyst;

import io.pyslash.shim.Reflection;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.util.AccumulatorV2;
import scala.Product;
import scala.jdk.javaapi.CollectionConverters;

/** Spark's operator that collects event times, in a physical plan. */
public final class Watermark {
  private static final String NAME = "EventTimeWatermarkExec"; // its package differs between Spark's releases
  private static final int EVENT_TIME = 1; // of its fields

  private Watermark() {}

  public static boolean is(SparkPlan node) {
    return node.getClass().getSimpleName().equals(NAME);
  }

  /** All such operators of a plan, from the top down. */
  static List<SparkPlan> in(SparkPlan plan) {
    List<SparkPlan> found = new ArrayList<>();
    if (is(plan)) {
      found.add(plan);
    }
    CollectionConverters.asJava(plan.children()).forEach(child -> found.addAll(in(child)));
    return found;
  }

  /** The event time of such an operator. */
  public static Attribute time(SparkPlan operator) {
    return (Attribute) ((Product) operator).productElement(EVENT_TIME);
  }

  /** How far the watermark of such an operator stays behind the times, in milliseconds. */
  static long delay(SparkPlan operator) {
    return (Long) Reflection.call(operator, "delayMs");
  }

  /** What such an operator has collected. */
  static AccumulatorV2<?, ?> times(SparkPlan operator) {
    return (AccumulatorV2<?, ?>) Reflection.call(operator, "eventTimeStats");
  }

  /** The same as text: count, least, greatest and mean in milliseconds, by blanks. */
  static String collected(SparkPlan operator) {
    Object stats = times(operator).value();
    return Stream.of("count", "min", "max", "avg")
        .map(figure -> Reflection.call(stats, figure).toString())
        .collect(Collectors.joining(" "));
  }

  /** Has such an operator collect these as well; milliseconds. */
  static void collect(SparkPlan operator, long count, long least, long greatest, double mean) {
    Object stats = times(operator).value();
    try {
      Class<?> type = stats.getClass();
      Object added =
          type.getConstructor(long.class, long.class, double.class, long.class).newInstance(greatest, least, mean, count);
      type.getMethod("merge", type).invoke(stats, added);
    } catch (ReflectiveOperationException unknown) {
      throw new IllegalStateException(unknown);
    }
  }
}
