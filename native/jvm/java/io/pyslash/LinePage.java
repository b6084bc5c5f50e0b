package io.pyslash;

import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Rows of many records, as {@link Native#add} takes them; valid until the next ones are asked for.
 *
 * <p>A batch of no columns to Spark, whose scan counts its rows.
 */
final class LinePage extends ColumnarBatch {
  final long address; // of UnsafeRows, each behind its size (a long)
  final long bytes;
  final int fields; // of a row

  LinePage(long address, long bytes, int rows, int fields) {
    super(new ColumnVector[0], rows);
    this.address = address;
    this.bytes = bytes;
    this.fields = fields;
  }
}
