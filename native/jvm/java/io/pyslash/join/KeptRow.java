package io.pyslash.join;

import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;

/** A row of a join where native code keeps it: `joins/join_table.h` has what is in front of its bytes. */
final class KeptRow {
  /** No row of the other side has matched it yet. */
  static final long NEVER = Long.MAX_VALUE;

  private static final long MATCHED = 8; // so many bytes in front of the row
  private static final long BYTES = 12;

  private KeptRow() {}

  static void point(UnsafeRow row, long address) {
    row.pointTo(null, address, Platform.getInt(null, address - BYTES));
  }

  /** The micro-batch in which a row was first found to match it. */
  static long matchedIn(long address) {
    return Platform.getLong(null, address - MATCHED);
  }

  /** It matches a row in this micro-batch, or has in this one; the first one stays. */
  static void match(long address, long epoch) {
    if (matchedIn(address) == NEVER) {
      Platform.putLong(null, address - MATCHED, epoch);
    }
  }
}
