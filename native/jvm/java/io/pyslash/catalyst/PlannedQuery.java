package io.pyslash.catalyst;

import io.pyslash.shim.StreamPlanning;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.streaming.OutputMode;

/** The physical plan of a streaming query before it has started, as Spark's own explain() makes it. */
public final class PlannedQuery {
  private PlannedQuery() {}

  public static SparkPlan of(SparkSession session, LogicalPlan analysed, OutputMode mode) {
    return StreamPlanning.plan(session, BatchTime.of(analysed), mode);
  }
}
