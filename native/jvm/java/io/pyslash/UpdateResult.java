package io.pyslash;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;

/** What the tasks of an update job have returned. */
public final class UpdateResult {
  private final byte[] receipts;
  private final EventTimes times = new EventTimes();

  private final JsonInput json;

  UpdateResult(List<byte[]> results, JsonInput json) {
    this.json = json;
    int size = results.stream().mapToInt(result -> Integer.BYTES + result.length - EventTimes.BYTES).sum();
    ByteBuffer joined = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
    for (byte[] result : results) {
      ByteBuffer read = ByteBuffer.wrap(result).order(ByteOrder.LITTLE_ENDIAN);
      times.merge(read);
      joined.putInt(read.remaining()).put(read);
    }
    receipts = joined.array();
  }

  /** One receipt a partition, each behind its length (int32, little endian). */
  public byte[] receipts() {
    return receipts;
  }

  /** Statistics that Spark has not collected itself: of no rows if its watermark operator was in the plan. */
  public EventTimes times() {
    return times;
  }

  /** What was read of JSON natively, and what by Spark. */
  public JsonInput json() {
    return json;
  }
}
