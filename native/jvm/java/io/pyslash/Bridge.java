package io.pyslash;

import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.execution.QueryExecution;

/** The driver's door to the row bridge; called from Python through py4j, hence an object, with plain arguments. */
public final class Bridge {
  /** Runs one update job over the rows of a query, columns = event time and the plan's columns in order. */
  public UpdateResult update(
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
    UpdateRows input = new UpdateRows(rows);
    UpdateTask task = new UpdateTask(order, rows.executedPlan().schema(), input.withoutWatermark);
    return new UpdateResult(input.rows.toJavaRDD().mapPartitions(task).collect());
  }

  /** The files that a micro-batch reads, as {@link FileScan} tells it. */
  public String describeScan(QueryExecution rows) {
    return FileScan.describe(rows.executedPlan());
  }
}
