package io.pyslash.core;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.CalendarIntervalType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.sql.types.VariantType;

/**
 * What UnsafeRows of some columns look like, as native code checks it (`pyslash/row_shape.h`). Spark reads a row wherever
 * its fields point; one that comes from a file or another process is checked before.
 */
public final class RowShape {
  private static final Map<String, RowShape> KNOWN = new ConcurrentHashMap<>(); // few: as many as there are schemas

  private final long handle;

  private RowShape(String text) {
    handle = Native.rowShape(text.getBytes(StandardCharsets.US_ASCII));
  }

  public static RowShape of(StructType columns) {
    return KNOWN.computeIfAbsent(describe(columns), RowShape::new);
  }

  public static byte[] text(StructType columns) {
    return describe(columns).getBytes(StandardCharsets.US_ASCII);
  }

  /**
   * Fails unless {@code length} bytes from {@code offset} on are such a row. They must be nobody else's: what changes
   * afterwards is not seen.
   */
  public void check(byte[] bytes, int offset, int length) {
    try {
      Native.checkRow(handle, bytes, offset, length);
    } catch (SlashException failure) {
      throw failure.forDriver();
    }
  }

  private static String describe(StructType columns) {
    StringBuilder text = new StringBuilder();
    row(text, columns);
    return text.substring(0, text.length() - 1);
  }

  private static void row(StringBuilder text, StructType columns) {
    text.append("row ").append(columns.length()).append(' ');
    for (StructField column : columns.fields()) {
      type(text, column.dataType());
    }
  }

  private static void type(StringBuilder text, DataType type) {
    if (type instanceof UserDefinedType<?> named) {
      type(text, named.sqlType());
    } else if (type instanceof StructType columns) {
      row(text, columns);
    } else if (type instanceof ArrayType array) {
      type(text.append("array "), array.elementType());
    } else if (type instanceof MapType map) {
      type(text.append("map "), map.keyType());
      type(text, map.valueType());
    } else if (type instanceof DecimalType decimal) {
      text.append(decimal.precision() <= Decimal.MAX_LONG_DIGITS() ? "fixed 8 " : "decimal ");
    } else if (type instanceof CalendarIntervalType) {
      text.append("interval ");
    } else if (type instanceof VariantType) {
      text.append("variant ");
    } else if (type instanceof NullType) {
      text.append("fixed 0 "); // no element of an array is read
    } else if (UnsafeRow.isFixedLength(type)) {
      text.append("fixed ").append(type.defaultSize()).append(' ');
    } else {
      text.append("bytes "); // of a string in any collation, a binary, and whatever Spark keeps as one
    }
  }
}
