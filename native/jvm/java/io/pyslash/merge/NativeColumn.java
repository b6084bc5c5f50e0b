package io.pyslash.merge;

import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of merged rows where native code has put it, in Arrow's layout, as Spark reads columns.
 *
 * <p>Spark's own vector over Arrow memory would want Arrow's allocator to own it, and asks through an accessor a value.
 * This one is a final class without a hierarchy below it, so that generated code becomes a plain load.
 */
final class NativeColumn extends ColumnVector {
  private static final int DECIMAL_BYTES = 16;

  private long nulls;
  private long validity;
  private long values;
  private long offsets;

  NativeColumn(DataType type) {
    super(type);
  }

  /** Points to the columns of the next batch: addresses, of which validity and offsets may be 0. */
  void set(long nullCount, long validityAddress, long valuesAddress, long offsetsAddress) {
    nulls = nullCount;
    validity = validityAddress;
    values = valuesAddress;
    offsets = offsetsAddress;
  }

  @Override
  public void close() {
    // The memory is the merger's.
  }

  @Override
  public boolean hasNull() {
    return nulls != 0;
  }

  @Override
  public int numNulls() {
    return (int) nulls;
  }

  @Override
  public boolean isNullAt(int row) {
    return nulls != 0 && !bit(validity, row);
  }

  @Override
  public boolean getBoolean(int row) {
    return bit(values, row);
  }

  @Override
  public byte getByte(int row) {
    return Platform.getByte(null, values + row);
  }

  @Override
  public short getShort(int row) {
    return Platform.getShort(null, values + 2L * row);
  }

  @Override
  public int getInt(int row) {
    return Platform.getInt(null, values + 4L * row);
  }

  @Override
  public long getLong(int row) {
    return Platform.getLong(null, values + 8L * row);
  }

  @Override
  public float getFloat(int row) {
    return Platform.getFloat(null, values + 4L * row);
  }

  @Override
  public double getDouble(int row) {
    return Platform.getDouble(null, values + 8L * row);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    if (isNullAt(row)) {
      return null;
    }
    long at = values + (long) DECIMAL_BYTES * row;
    if (precision <= Decimal.MAX_LONG_DIGITS()) {
      return Decimal.createUnsafe(Platform.getLong(null, at), precision, scale);
    }
    byte[] bigEndian = new byte[DECIMAL_BYTES];
    for (int i = 0; i < DECIMAL_BYTES; i++) {
      bigEndian[i] = Platform.getByte(null, at + DECIMAL_BYTES - 1 - i);
    }
    return Decimal.apply(new BigDecimal(new BigInteger(bigEndian), scale), precision, scale);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    return isNullAt(row) ? null : UTF8String.fromAddress(null, values + begin(row), begin(row + 1) - begin(row));
  }

  @Override
  public byte[] getBinary(int row) {
    if (isNullAt(row)) {
      return null;
    }
    byte[] bytes = new byte[begin(row + 1) - begin(row)];
    Platform.copyMemory(null, values + begin(row), bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    return bytes;
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw new UnsupportedOperationException("no result of pyslash is an array");
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw new UnsupportedOperationException("no result of pyslash is a map");
  }

  @Override
  public ColumnVector getChild(int child) {
    throw new UnsupportedOperationException("no result of pyslash is nested");
  }

  private int begin(int row) {
    return Platform.getInt(null, offsets + 4L * row);
  }

  private static boolean bit(long bitmap, int row) {
    return (Platform.getByte(null, bitmap + (row >> 3)) >> (row & 7) & 1) != 0;
  }
}
