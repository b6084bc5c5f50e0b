package io.pyslash;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.util.AccumulatorV2;
import scala.Product;
import scala.jdk.javaapi.CollectionConverters;

/** Spark's operator that collects event times, in a physical plan. */
final class Watermark {
  private static final String NAME = "EventTimeWatermarkExec"; // its package differs between Spark's releases
  private static final int EVENT_TIME = 1; // of its fields

  private Watermark() {}

  static boolean is(SparkPlan node) {
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
  static Attribute time(SparkPlan operator) {
    return (Attribute) ((Product) operator).productElement(EVENT_TIME);
  }

  /** What such an operator has collected. */
  static AccumulatorV2<?, ?> times(SparkPlan operator) {
    try {
      return (AccumulatorV2<?, ?>) operator.getClass().getMethod("eventTimeStats").invoke(operator);
    } catch (ReflectiveOperationException unknown) {
      throw new IllegalStateException(unknown);
    }
  }
}
