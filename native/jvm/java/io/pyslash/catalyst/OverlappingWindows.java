package io.pyslash.catalyst;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Sliding windows of which thousands overlap. Spark gives a row one projection a window, and would plan all of them in
 * each micro-batch, seconds of the driver's time, for an Expand that is never executed: a few are enough to tell which
 * windows there are.
 */
public final class OverlappingWindows {
  private static final int MOST = 64;
  private static final int KEPT = 2; // they tell size and slide

  private OverlappingWindows() {}

  /** The analysed plan with few windows a row; the plan itself where it has few. */
  public static LogicalPlan withTruncatedWindows(LogicalPlan plan) {
    List<LogicalPlan> children = new ArrayList<>();
    boolean changed = false;
    for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
      LogicalPlan thin = withTruncatedWindows(child);
      changed |= thin != child;
      children.add(thin);
    }
    LogicalPlan over = changed ? plan.withNewChildren(CollectionConverters.asScala(children).toSeq()) : plan;
    if (over instanceof Expand expand
        && expand.projections().size() > MOST
        && WindowedInput.isWindowStruct(expand.projections().head().head())) {
      List<Seq<Expression>> kept = CollectionConverters.asJava(expand.projections()).subList(0, KEPT);
      return new Expand(CollectionConverters.asScala(kept).toSeq(), expand.output(), expand.child());
    }
    return over;
  }
}
