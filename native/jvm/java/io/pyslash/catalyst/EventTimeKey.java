package io.pyslash.catalyst;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.execution.ExpandExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The key that is the event time itself, or a window that Spark has made: the group is complete when the watermark reaches
 * the time, or the window's end. Null where rows have no time, and in the totals of a rollup; such groups are never complete.
 *
 * @param grouping the grouping expression
 * @param at its place among the keys
 */
record EventTimeKey(NamedExpression grouping, int at) {
  private static final int END = 1; // of a window's bounds

  /** Of these grouping expressions; null: none has a watermark. */
  static EventTimeKey among(List<NamedExpression> groupings) {
    EventTimeKey found = null;
    for (int i = 0; i < groupings.size(); i++) {
      if (groupings.get(i).metadata().contains(PlannedOperator.WATERMARK_KEY)) {
        if (found != null) {
          throw new OnlySpark("it groups by more than one event time");
        }
        found = new EventTimeKey(groupings.get(i), i);
      }
    }
    return found;
  }

  /** The time that decides, of a row. */
  NamedExpression moment() {
    Expression value = grouping instanceof Alias alias ? alias.child() : (Expression) grouping;
    Expression moment = moment(value);
    return moment instanceof Attribute attribute ? attribute : WindowedInput.alias(moment, "moment");
  }

  private static Expression moment(Expression value) {
    return value.dataType() instanceof StructType ? new GetStructField(value, END, Option.empty()) : value;
  }

  /** Whether a merged group becomes complete as the watermark moves from one time to another one; microseconds. */
  Expression isCompleteBetween(long afterMicros, long untilMicros, Attribute column) {
    Expression value = KeyBytes.given(column, ((Expression) grouping).dataType());
    Expression moment = moment(value);
    return new And(
        new GreaterThan(moment, new Literal(afterMicros, moment.dataType())),
        new LessThanOrEqual(moment, new Literal(untilMicros, moment.dataType())));
  }

  /** Whether grouping sets leave it out of some groups, so that these are never complete. */
  boolean isLeftOut(SparkPlan below) {
    long id = grouping.exprId().id();
    SparkPlan node = below;
    while (node instanceof ProjectExec
        || node instanceof FilterExec
        || node instanceof SortExec
        || node instanceof WholeStageCodegenExec
        || node instanceof InputAdapter) {
      node = node.children().head();
    }
    if (!(node instanceof ExpandExec expand)) {
      return false;
    }
    List<Attribute> output = CollectionConverters.asJava(expand.output());
    return CollectionConverters.asJava(expand.projections()).stream()
        .anyMatch(
            row -> {
              for (int i = 0; i < output.size(); i++) {
                if (output.get(i).exprId().id() == id) {
                  return row.apply(i) instanceof Literal literal && literal.value() == null;
                }
              }
              return false;
            });
  }
}
