package io.pyslash.catalyst;

import io.pyslash.shim.StreamPlanning;
import org.apache.spark.sql.catalyst.expressions.CurrentBatchTimestamp;
import org.apache.spark.sql.catalyst.expressions.CurrentDate;
import org.apache.spark.sql.catalyst.expressions.CurrentTimestampLike;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.LocalTimestamp;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.streaming.OutputMode;
import scala.Option;
import scala.runtime.AbstractPartialFunction;

/** The physical plan of a streaming query before it has started, as Spark's own explain() makes it. */
public final class PlannedQuery {
  private static final TreeNodeTag<Boolean> OF_BATCH = new TreeNodeTag<>("the time of a micro-batch");

  private PlannedQuery() {}

  public static SparkPlan of(SparkSession session, LogicalPlan analysed, OutputMode mode) {
    return StreamPlanning.plan(session, analysed.transformAllExpressions(new BatchTime()), mode);
  }

  /** Whether an expression of such a plan may have another value for the same row in each micro-batch. */
  static boolean isOfBatch(Expression expression) {
    return !expression.deterministic()
        || expression.exists(part -> part instanceof PlanExpression<?> || part.getTagValue(OF_BATCH).isDefined());
  }

  /**
   * The current time as an expression of the micro-batch, as Spark has it in a stream; without this, the plan would hold
   * the time at which it was made, and be another one at the next start.
   */
  private static final class BatchTime extends AbstractPartialFunction<Expression, Expression> {
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
      Expression time = new CurrentBatchTimestamp(0L, expression.dataType(), zone);
      time.setTagValue(OF_BATCH, true); // Spark leaves it to the literal that it plans in its place
      return time;
    }
  }
}
