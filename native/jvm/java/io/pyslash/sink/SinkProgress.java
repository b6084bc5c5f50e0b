package io.pyslash.sink;

import io.pyslash.shim.QueryPlans;
import io.pyslash.shim.RunningStream;
import java.util.List;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;

/**
 * Tells Spark how many rows a sink has taken. Spark looks for the number on top of the micro-batch's plan, where a
 * V2 write of its own would stand; it sees a V1 sink, for which there is none.
 */
final class SinkProgress {
  private SinkProgress() {}

  /**
   * The running micro-batch of this `StreamExecution` has been written by {@code done}, and its plan is not executed
   * again.
   */
  static void tell(Object stream, WriteToDataSourceV2Exec done) {
    QueryExecution execution = RunningStream.lastExecution(stream);
    SparkPlan rows = execution.executedPlan();
    WriteToDataSourceV2Exec write =
        (WriteToDataSourceV2Exec) done.withNewChildren(CollectionConverters.asScala(List.of(rows)).toSeq());
    write.commitProgress_$eq(done.commitProgress());
    QueryPlans.setExecuted(execution, new Known(write));
    execution.executedPlan(); // evaluated now, as it was
  }

  private static final class Known extends AbstractFunction0<SparkPlan> {
    private final SparkPlan plan;

    Known(SparkPlan plan) {
      this.plan = plan;
    }

    @Override
    public SparkPlan apply() {
      return plan;
    }
  }
}
