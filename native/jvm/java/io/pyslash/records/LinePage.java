package io.pyslash.records;

import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Rows of many records, as {@link Native#add} takes them; valid until the next ones are asked for.
 *
 * <p>A batch of no columns to Spark, whose scan counts its rows.
 */
public final class LinePage extends ColumnarBatch {
  public final long address; // of UnsafeRows, each behind its size (a long)
  public final long bytes;
  public final int fields; // of a row

  LinePage(long address, long bytes, int rows, int fields) {
    super(new ColumnVector[0], rows);
    this.address = address;
    this.bytes = bytes;
    this.fields = fields;
  }
}
