package io.pyslash.catalyst;

import org.apache.spark.sql.catalyst.expressions.CurrentBatchTimestamp;
import org.apache.spark.sql.catalyst.expressions.CurrentDate;
import org.apache.spark.sql.catalyst.expressions.CurrentTimestampLike;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.LocalTimestamp;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.Option;
import scala.runtime.AbstractPartialFunction;

/**
 * The current time as an expression of the micro-batch, as Spark has it in a stream; without this, the plan would hold
 * the time at which it was made, and be another one at the next start.
 */
final class BatchTime extends AbstractPartialFunction<Expression, Expression> {
  private BatchTime() {}

  static LogicalPlan of(LogicalPlan plan) {
    return plan.transformAllExpressions(new BatchTime());
  }

  @Override
  public boolean isDefinedAt(Expression expression) {
    return expression instanceof CurrentTimestampLike
        || expression instanceof CurrentDate
        || expression instanceof LocalTimestamp;
  }

  @Override
  public Expression apply(Expression expression) {
    Option<String> zone = Option.apply("UTC"); // an instant has no zone, and Spark wants one
    if (expression instanceof TimeZoneAwareExpression aware) {
      zone = aware.timeZoneId();
    }
    return new CurrentBatchTimestamp(0L, expression.dataType(), zone);
  }
}
