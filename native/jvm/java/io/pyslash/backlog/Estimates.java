package io.pyslash.backlog;

import io.pyslash.backlog.BacklogRules.Order;
import io.pyslash.catalyst.WindowedInput;
import io.pyslash.core.Fields;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SessionWindow;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * An aggregation of samples: each count, sum and mean becomes its estimate by inverse probability (Horvitz and Thompson), with
 * one more column, of the bounds between which the true value lies 95 times of 100. A record that was taken with the
 * probability 1/w stands for w; where all were taken, values are exact, and so are both bounds.
 */
public final class Estimates {
  private static final String INTERVAL = "_95";

  private final ParserInterface parser;
  private final BacklogRules rules;
  private final Set<Long> carried = new HashSet<>(); // columns that the job's plan does not know, by their ids
  private AttributeReference weight;

  private Estimates(ParserInterface parser, BacklogRules rules) {
    this.parser = parser;
    this.rules = rules;
  }

  /** Why a query cannot do with samples; the message is for users. */
  static final class ObstacleException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    ObstacleException(String reason) {
      super(reason);
    }
  }

  /** Why a query of this analysed plan cannot do with samples of its records; null if it can. */
  public static String obstacle(ParserInterface parser, LogicalPlan analysed) {
    try {
      of(parser, analysed, new BacklogRules(Order.SAMPLED, 1, 1, false));
      return null;
    } catch (ObstacleException obstacle) {
      return obstacle.getMessage();
    }
  }

  /** The plan of estimates, yet to be analysed. */
  public static LogicalPlan of(ParserInterface parser, LogicalPlan analysed, BacklogRules rules) {
    Estimates estimates = new Estimates(parser, rules);
    LogicalPlan found = estimates.rewritten(analysed);
    if (estimates.carried.isEmpty() || estimates.carried.contains(estimates.weight.exprId().id())) {
      throw new ObstacleException("it aggregates nothing that can be estimated");
    }
    return found;
  }

  private LogicalPlan rewritten(LogicalPlan plan) {
    if (plan instanceof StreamingRelationV2 relation && relation.sourceName().equals("kafka")) {
      return weighted(relation);
    }
    if (plan instanceof Aggregate aggregate) {
      return estimated(aggregate, rewritten(aggregate.child()));
    }
    if (plan instanceof Project project) {
      LogicalPlan below = rewritten(project.child());
      List<NamedExpression> columns = list(project.projectList());
      list(below.output()).stream().filter(this::isCarried).forEach(columns::add);
      return new Project(seq(columns), below);
    }
    if (plan instanceof Expand expand) {
      return expanded(expand, rewritten(expand.child()));
    }
    if (plan instanceof View view) { // its columns are those of what it stands for
      return rewritten(view.child());
    }
    boolean passes =
        plan instanceof Filter
            || plan instanceof EventTimeWatermark
            || plan instanceof SubqueryAlias
            || plan instanceof Sort;
    if (!passes) {
      throw new ObstacleException("only one aggregation over one Kafka source can be estimated, without " + plan.nodeName());
    }
    LogicalPlan below = rewritten(plan.children().head());
    return plan.withNewChildren(seq(List.of(below)));
  }

  /** Of each row, several: for the windows that overlap, or for the groupings of a rollup. */
  private LogicalPlan expanded(Expand expand, LogicalPlan below) {
    List<Attribute> more = list(below.output()).stream().filter(this::isCarried).toList();
    List<Seq<Expression>> projections = new ArrayList<>();
    for (Seq<Expression> one : list(expand.projections())) {
      List<Expression> columns = list(one);
      columns.addAll(more);
      projections.add(seq(columns));
    }
    List<Attribute> output = list(expand.output());
    output.addAll(more);
    return new Expand(seq(projections), seq(output), below);
  }

  private boolean isCarried(Attribute column) {
    return carried.contains(column.exprId().id());
  }

  private LogicalPlan weighted(StreamingRelationV2 relation) {
    weight =
        new AttributeReference(
            Sampled.WEIGHT, DataTypes.DoubleType, false, Metadata.empty(), NamedExpression.newExprId(), seq(List.of()));
    carried.add(weight.exprId().id());
    StreamingRelationV2 sampled = (StreamingRelationV2) BacklogSource.with(relation, rules);
    List<AttributeReference> output = list(relation.output());
    output.add(weight);
    return sampled.makeCopy(Fields.of(sampled, sampled.output(), seq(output)));
  }

  /** What is aggregated, and above it what follows from that, under the names and ids of the job's own columns. */
  private LogicalPlan estimated(Aggregate aggregate, LogicalPlan below) {
    if (!carried.remove(weight.exprId().id())) {
      throw new ObstacleException("it has one aggregation above another");
    }
    if (list(aggregate.groupingExpressions()).stream().anyMatch(Estimates::isSession)) {
      throw new ObstacleException("a session without some of its records is another session");
    }
    List<NamedExpression> inputs = new ArrayList<>(list(below.output()));
    List<NamedExpression> aggregated = new ArrayList<>();
    List<NamedExpression> results = new ArrayList<>();
    List<NamedExpression> intervals = new ArrayList<>();
    for (NamedExpression column : list(aggregate.aggregateExpressions())) {
      if (!containsAggregate((Expression) column)) {
        aggregated.add(column);
        results.add(column.toAttribute());
        continue;
      }
      Estimate estimate = Estimate.of(column, intervals.size());
      inputs.add(WindowedInput.alias(estimate.input(), estimate.name("x")));
      aggregated.add(WindowedInput.alias(estimate.call(), estimate.name("s")));
      estimate.sums().forEach((name, sql) -> aggregated.add(WindowedInput.alias(parsed(sql), estimate.name(name))));
      results.add(WindowedInput.alias(parsed(estimate.value()), column.toAttribute()));
      NamedExpression interval = WindowedInput.alias(parsed(estimate.interval()), column.name() + INTERVAL);
      carried.add(interval.exprId().id());
      intervals.add(interval);
    }
    results.addAll(intervals);
    aggregated.add(WindowedInput.alias(parsed(Estimate.SUM_OF_LEFT_OUT), Estimate.LEFT_OUT));
    LogicalPlan given = new Project(seq(inputs), below);
    Object[] fields =
        Fields.of(aggregate, aggregate.aggregateExpressions(), seq(aggregated), aggregate.child(), given);
    return new Project(seq(results), aggregate.makeCopy(fields));
  }

  private Expression parsed(String sql) {
    try {
      return parser.parseExpression(sql);
    } catch (ParseException impossible) {
      throw new IllegalStateException(sql, impossible);
    }
  }

  private static boolean isSession(Expression grouping) {
    return grouping instanceof Attribute column && column.metadata().contains(SessionWindow.marker());
  }

  private static boolean containsAggregate(Expression expression) {
    return expression instanceof AggregateExpression
        || CollectionConverters.asJava(expression.children()).stream().anyMatch(Estimates::containsAggregate);
  }

  private static <T> List<T> list(scala.collection.Seq<? extends T> items) {
    return new ArrayList<>(CollectionConverters.asJava(items));
  }

  private static <T> Seq<T> seq(List<T> items) {
    return CollectionConverters.asScala(items).toSeq();
  }
}
