package io.pyslash;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.QueryExecution;

/** The driver's door to the row bridge; called from Python by reflection, hence with plain arguments. */
public final class Bridge {
  private Bridge() {}

  /**
   * Runs one update job over the rows of a query, columns = event time and the plan's columns in order; returns one
   * receipt a partition.
   */
  public static List<byte[]> update(
      QueryExecution rows,
      String planText,
      long watermarkMicros,
      byte[] query,
      long epoch,
      byte[] secret,
      long arenaBytes,
      String python,
      String pythonPath,
      String runtimeDirectory,
      int startTimeoutSeconds) {
    UpdateOrder order =
        new UpdateOrder(
            planText.getBytes(StandardCharsets.US_ASCII),
            watermarkMicros,
            query,
            epoch,
            secret,
            arenaBytes,
            python,
            pythonPath,
            runtimeDirectory,
            startTimeoutSeconds);
    JavaRDD<InternalRow> partitions = rows.toRdd().toJavaRDD();
    return partitions.mapPartitions(new UpdateTask(order, rows.executedPlan().schema())).collect();
  }
}
