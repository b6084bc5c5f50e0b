package io.pyslash.sink;

import io.pyslash.shim.QueryPlans;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.v2.V2Writes$;
import scala.runtime.AbstractFunction0;

/**
 * How Spark executes the write of a micro-batch whose rows are at hand, or come from an RDD. All rules of its analyzer and
 * optimizer take milliseconds over any plan, and of Spark's own only the one that makes the write changes this one: the
 * others are left out, unless somebody has brought more.
 */
final class SinkWrite {
  private SinkWrite() {}

  /** The execution of this write (`WriteToMicroBatchDataSource`). */
  static QueryExecution of(SparkSession session, LogicalPlan write) {
    LogicalPlan rows = write.children().head();
    boolean isPlain = (rows instanceof LocalRelation || rows instanceof LogicalRDD) && !QueryPlans.hasMoreRules(session);
    if (isPlain) {
      write.setAnalyzed();
    }
    QueryExecution execution = Dataset.ofRows(session, write).queryExecution();
    if (isPlain) {
      QueryPlans.setOptimized(execution, new Optimized(execution, rows));
    }
    return execution;
  }

  /** Makes the optimized plan as Spark does, by the one rule. */
  private static final class Optimized extends AbstractFunction0<LogicalPlan> {
    private final QueryExecution execution;
    private final LogicalPlan rows;

    Optimized(QueryExecution execution, LogicalPlan rows) {
      this.execution = execution;
      this.rows = rows;
    }

    @Override
    public LogicalPlan apply() {
      QueryPlanningTracker tracker = execution.tracker();
      return tracker.measurePhase(QueryPlanningTracker.OPTIMIZATION(), new Rule());
    }

    private final class Rule extends AbstractFunction0<LogicalPlan> {
      @Override
      public LogicalPlan apply() {
        LogicalPlan write = V2Writes$.MODULE$.apply(execution.withCachedData().clone());
        if (!write.children().head().getClass().equals(rows.getClass())) { // the sink wants its rows in some order
          write = execution.sparkSession().sessionState().optimizer().executeAndTrack(write, execution.tracker());
        }
        write.setAnalyzed();
        return write;
      }
    }
  }
}
