package io.pyslash;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.QueryExecution;

/** The driver's door to the row bridge; called from Python through py4j, hence an object, with plain arguments. */
public final class Bridge {
  /**
   * Runs one update job over the rows of a query, columns = event time and the plan's columns in order; returns one
   * receipt a partition, each behind its length (int32, little endian).
   */
  public byte[] update(
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
    return join(partitions.mapPartitions(new UpdateTask(order, rows.executedPlan().schema())).collect());
  }

  /** The files that a micro-batch reads, as {@link FileScan} tells it. */
  public String describeScan(QueryExecution rows) {
    return FileScan.describe(rows.executedPlan());
  }

  private static byte[] join(List<byte[]> receipts) {
    int size = receipts.stream().mapToInt(receipt -> Integer.BYTES + receipt.length).sum();
    ByteBuffer joined = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
    for (byte[] receipt : receipts) {
      joined.putInt(receipt.length).put(receipt);
    }
    return joined.array();
  }
}
