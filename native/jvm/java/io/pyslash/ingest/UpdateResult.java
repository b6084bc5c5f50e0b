package io.pyslash.ingest;

import io.pyslash.core.Json;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * What an update job has found, as Python reads it in one call; little endian.
 *
 * <p>The statistics of the event times that Spark has not collected itself ({@link EventTimes}; of no rows if its watermark
 * operator was in the plan); int64 each: rows that tasks took in columns, records of text left to Spark, of files in pages, of
 * topics past Spark's reader; int32 length of a {@link Told}, in JSON; one receipt a partition, each behind its length (int32).
 */
public final class UpdateResult {
  /**
   * @param obstacles why Spark reads records
   * @param tasks what each of them has read; none if it is all the same input, and of no topic
   */
  record Told(List<String> obstacles, List<TaskInputs.Read> tasks) {}

  private UpdateResult() {}

  /** The result of the tasks that returned these, of what was read natively, and what by Spark, and by which task. */
  public static byte[] of(List<byte[]> tasks, NativeInput input, TaskInputs inputs) {
    int receipts = tasks.stream().mapToInt(task -> Integer.BYTES + task.length - UpdateTask.COUNTS_BYTES).sum();
    EventTimes times = new EventTimes();
    List<ByteBuffer> read = tasks.stream().map(task -> ByteBuffer.wrap(task).order(ByteOrder.LITTLE_ENDIAN)).toList();
    List<TaskInputs.Read> reads = new ArrayList<>();
    long inColumns = 0;
    for (ByteBuffer task : read) {
      times.merge(task);
      inColumns += task.getLong();
      inputs.add(reads, task.getLong(), task.getLong());
    }
    byte[] told = Json.of(new Told(input.obstacles(), reads)).getBytes(StandardCharsets.UTF_8);
    ByteBuffer result =
        ByteBuffer.allocate(EventTimes.BYTES + 4 * Long.BYTES + Integer.BYTES + told.length + receipts)
            .order(ByteOrder.LITTLE_ENDIAN);
    times.write(result);
    result.putLong(inColumns);
    result.putLong(input.leftToSpark()).putLong(input.inPages()).putLong(input.fetched());
    result.putInt(told.length).put(told);
    read.forEach(receipt -> result.putInt(receipt.remaining()).put(receipt));
    return result.array();
  }
}
