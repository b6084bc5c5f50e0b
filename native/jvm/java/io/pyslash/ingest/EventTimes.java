package io.pyslash.ingest;

import io.pyslash.records.LinePage;
import java.nio.ByteBuffer;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;

/** Statistics of rows' event times in microseconds, as Spark's watermark operator collects them: no time counts as 0. */
final class EventTimes {
  static final int BYTES = 4 * Long.BYTES;

  private static final long MICROS = 1000; // in a millisecond

  private long count;
  private long least = Long.MAX_VALUE;
  private long greatest = Long.MIN_VALUE;
  private double sum; // of longs it would overflow

  void add(UnsafeRow row) {
    add(row.getLong(0)); // Spark writes 0 where it sets the null bit
  }

  void add(LinePage page) {
    long first = Long.BYTES + UnsafeRow.calculateBitSetWidthInBytes(page.fields);
    for (long row = page.address; row < page.address + page.bytes; row += Long.BYTES + Platform.getLong(null, row)) {
      add(Platform.getLong(null, row + first));
    }
  }

  /** Times one after the other, 0 where there is none. */
  void add(long first, long rows) {
    for (long at = first; at < first + Long.BYTES * rows; at += Long.BYTES) {
      add(Platform.getLong(null, at));
    }
  }

  private void add(long time) {
    count++;
    least = Math.min(least, time);
    greatest = Math.max(greatest, time);
    sum += time;
  }

  /** In milliseconds; the least long: there is none. */
  long newest() {
    return count == 0 ? Long.MIN_VALUE : Math.floorDiv(greatest, MICROS);
  }

  void merge(ByteBuffer other) {
    count += other.getLong();
    least = Math.min(least, other.getLong());
    greatest = Math.max(greatest, other.getLong());
    sum += other.getDouble();
  }

  void write(ByteBuffer target) {
    target.putLong(count).putLong(least).putLong(greatest).putDouble(sum);
  }
}
