package io.pyslash.ingest;

import io.pyslash.core.Json;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * What an update job has found, as Python reads it in one call; little endian.
 *
 * <p>The statistics of the event times that Spark has not collected itself ({@link EventTimes}; of no rows if its watermark
 * operator was in the plan); int64 each: rows that tasks took in columns, records of text left to Spark, of files in pages, of
 * topics past Spark's reader; int32 length of the reasons why Spark reads records, the reasons (a list, in JSON); one receipt a partition, each behind
 * its length (int32).
 */
public final class UpdateResult {
  private UpdateResult() {}

  /** The result of the tasks that returned these, and of what was read natively, and what by Spark. */
  public static byte[] of(List<byte[]> tasks, NativeInput input) {
    byte[] obstacles = Json.of(input.obstacles()).getBytes(StandardCharsets.UTF_8);
    int receipts = tasks.stream().mapToInt(task -> Integer.BYTES + task.length - UpdateTask.COUNTS_BYTES).sum();
    ByteBuffer result =
        ByteBuffer.allocate(UpdateTask.COUNTS_BYTES + 3 * Long.BYTES + Integer.BYTES + obstacles.length + receipts)
            .order(ByteOrder.LITTLE_ENDIAN);
    EventTimes times = new EventTimes();
    List<ByteBuffer> read = tasks.stream().map(task -> ByteBuffer.wrap(task).order(ByteOrder.LITTLE_ENDIAN)).toList();
    long inColumns = 0;
    for (ByteBuffer task : read) {
      times.merge(task);
      inColumns += task.getLong();
    }
    times.write(result);
    result.putLong(inColumns);
    result.putLong(input.leftToSpark()).putLong(input.inPages()).putLong(input.fetched());
    result.putInt(obstacles.length).put(obstacles);
    read.forEach(receipt -> result.putInt(receipt.remaining()).put(receipt));
    return result.array();
  }
}
