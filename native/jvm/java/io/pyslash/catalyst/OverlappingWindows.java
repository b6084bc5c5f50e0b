package io.pyslash.catalyst;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Sliding windows of which thousands overlap. Spark gives a row one projection a window, and would plan all of them in
 * each micro-batch, seconds of the driver's time, for an Expand that is never executed: a few are enough to tell which
 * windows there are. It is never executed where a streaming aggregation groups by the window; all others keep theirs.
 */
public final class OverlappingWindows {
  private static final int MOST = 64;
  private static final int KEPT = 2; // they tell size and slide

  private OverlappingWindows() {}

  /** The analysed plan with few windows a row where it groups by them; the plan itself where there are few. */
  public static LogicalPlan withTruncatedWindows(LogicalPlan plan) {
    return plan instanceof Aggregate aggregate && aggregate.isStreaming()
        ? overChild(plan, below(aggregate.child(), ids(aggregate.groupingExpressions())))
        : overChildren(plan, CollectionConverters.asJava(plan.children()).stream().map(OverlappingWindows::withTruncatedWindows).toList());
  }

  /** The same, where an aggregation above groups by the columns with these ids. */
  private static LogicalPlan below(LogicalPlan plan, Set<Long> groupedBy) {
    if (plan instanceof Expand expand) {
      boolean isOfWindows = WindowedInput.isWindowStruct(expand.projections().head().head());
      if (!isOfWindows) { // of a rollup
        return overChild(plan, below(expand.child(), groupedBy(expand, groupedBy)));
      }
      if (expand.projections().size() <= MOST || !groupedBy.contains(expand.output().head().exprId().id())) {
        return overChild(plan, withTruncatedWindows(expand.child()));
      }
      List<Seq<Expression>> kept = CollectionConverters.asJava(expand.projections()).subList(0, KEPT);
      return new Expand(CollectionConverters.asScala(kept).toSeq(), expand.output(), withTruncatedWindows(expand.child()));
    }
    if (plan instanceof Project project) {
      return overChild(plan, below(project.child(), sources(project.projectList(), project.output(), groupedBy)));
    }
    if (plan instanceof Filter || plan instanceof SubqueryAlias) {
      return overChild(plan, below(plan.children().head(), groupedBy));
    }
    if (plan instanceof Union union) {
      List<LogicalPlan> children = new ArrayList<>();
      for (LogicalPlan child : CollectionConverters.asJava(union.children())) {
        children.add(below(child, sources(child.output(), union.output(), groupedBy)));
      }
      return overChildren(plan, children);
    }
    return withTruncatedWindows(plan);
  }

  private static Set<Long> groupedBy(Expand expand, Set<Long> groupedBy) {
    Set<Long> found = new HashSet<>();
    for (Seq<Expression> projection : CollectionConverters.asJava(expand.projections())) {
      found.addAll(sources(projection, expand.output(), groupedBy));
    }
    return found;
  }

  /** Which columns of the input are, as they are, those of the output with these ids. */
  private static Set<Long> sources(Seq<?> expressions, Seq<Attribute> output, Set<Long> ids) {
    Set<Long> found = new HashSet<>();
    for (int i = 0; i < output.size(); i++) {
      if (ids.contains(output.apply(i).exprId().id())) {
        Object source = expressions.apply(i);
        if ((source instanceof Alias alias ? alias.child() : source) instanceof Attribute column) {
          found.add(column.exprId().id());
        }
      }
    }
    return found;
  }

  private static Set<Long> ids(Seq<Expression> grouping) {
    Set<Long> found = new HashSet<>();
    for (Expression expression : CollectionConverters.asJava(grouping)) {
      if ((expression instanceof Alias alias ? alias.child() : expression) instanceof Attribute column) {
        found.add(column.exprId().id());
      }
    }
    return found;
  }

  private static LogicalPlan overChild(LogicalPlan plan, LogicalPlan child) {
    return overChildren(plan, List.of(child));
  }

  private static LogicalPlan overChildren(LogicalPlan plan, List<LogicalPlan> children) {
    List<LogicalPlan> before = CollectionConverters.asJava(plan.children());
    for (int i = 0; i < before.size(); i++) {
      if (before.get(i) != children.get(i)) {
        return plan.withNewChildren(CollectionConverters.asScala(children).toSeq());
      }
    }
    return plan;
  }
}
