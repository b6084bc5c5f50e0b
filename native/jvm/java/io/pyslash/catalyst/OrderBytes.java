package io.pyslash.catalyst;

import java.io.ByteArrayOutputStream;
import java.math.BigInteger;
import java.math.RoundingMode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.YearMonthIntervalType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A value of a type that native code does not know, as bytes that are ordered as Spark orders such values: byte by byte,
 * unsigned, a prefix before what it begins.
 *
 * <pre>
 *   number       big-endian, its sign flipped; of a float that is not positive, all bits flipped
 *   string       its bytes, a zero as 00 ff, then 00 00
 *   field        01: null; else 02 and the value
 *   array        its elements as fields, then 00
 * </pre>
 */
final class OrderBytes extends UnaryFunction {
  private static final long serialVersionUID = 1L;

  private static final int END = 0;
  private static final int NULL = 1;
  private static final int PRESENT = 2;
  private static final int ESCAPED = 0xff; // behind a zero within a string
  private static final int DECIMAL_BYTES = 17; // 38 digits, and a sign

  private OrderBytes(Expression value) {
    super(value);
  }

  /** The value as native code orders it: itself where it has a native type, or where Spark's order is not one of bytes. */
  static Expression of(Expression value) {
    boolean isNative = NativeTypes.nameOf(value.dataType()) != null;
    return isNative || !isKnown(value.dataType()) ? value : new OrderBytes(value);
  }

  /** Whether bytes can tell Spark's order of values of this type. */
  static boolean isKnown(DataType type) {
    if (type instanceof StructType struct) {
      for (StructField field : struct.fields()) {
        if (!isKnown(field.dataType())) {
          return false;
        }
      }
      return true;
    }
    return type instanceof ArrayType array
        ? isKnown(array.elementType())
        : NativeTypes.nameOf(type) != null
            || type instanceof DayTimeIntervalType
            || type instanceof YearMonthIntervalType
            || type.typeName().startsWith("time("); // of Spark 4.1, nanoseconds
  }

  @Override
  Object of(Object value) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    write(value, child().dataType(), bytes);
    return bytes.toByteArray();
  }

  private static void write(Object value, DataType type, ByteArrayOutputStream out) {
    if (type instanceof StructType struct) {
      InternalRow row = (InternalRow) value;
      for (int i = 0; i < struct.length(); i++) {
        field(row.isNullAt(i) ? null : row.get(i, struct.fields()[i].dataType()), struct.fields()[i].dataType(), out);
      }
    } else if (type instanceof ArrayType array) {
      ArrayData elements = (ArrayData) value;
      for (int i = 0; i < elements.numElements(); i++) {
        field(elements.isNullAt(i) ? null : elements.get(i, array.elementType()), array.elementType(), out);
      }
      out.write(END);
    } else if (value instanceof Decimal decimal) {
      decimal(decimal, (DecimalType) type, out);
    } else if (value instanceof UTF8String string) {
      bytes(string.getBytes(), out);
    } else if (value instanceof byte[] binary) {
      bytes(binary, out);
    } else {
      number(value, out);
    }
  }

  private static void field(Object value, DataType type, ByteArrayOutputStream out) {
    out.write(value == null ? NULL : PRESENT);
    if (value != null) {
      write(value, type, out);
    }
  }

  private static void bytes(byte[] value, ByteArrayOutputStream out) {
    for (byte one : value) {
      out.write(one);
      if (one == 0) {
        out.write(ESCAPED);
      }
    }
    out.write(END);
    out.write(END);
  }

  private static void decimal(Decimal value, DecimalType type, ByteArrayOutputStream out) {
    BigInteger unscaled = value.toJavaBigDecimal().setScale(type.scale(), RoundingMode.HALF_UP).unscaledValue();
    byte[] shifted = unscaled.add(BigInteger.ONE.shiftLeft(8 * DECIMAL_BYTES - 1)).toByteArray(); // not negative
    int unsigned = Math.min(shifted.length, DECIMAL_BYTES); // without a byte that is there for the sign alone
    for (int i = unsigned; i < DECIMAL_BYTES; i++) {
      out.write(0);
    }
    out.write(shifted, shifted.length - unsigned, unsigned);
  }

  private static void number(Object value, ByteArrayOutputStream out) {
    long bits;
    if (value instanceof Boolean truth) {
      bits = truth ? 1 : 0;
    } else if (value instanceof Double number) {
      bits = ordered(number);
    } else if (value instanceof Float number) {
      bits = ordered(number.doubleValue());
    } else {
      bits = ((Number) value).longValue();
    }
    for (int shift = Long.SIZE - Byte.SIZE; shift >= 0; shift -= Byte.SIZE) {
      out.write((int) ((bits ^ Long.MIN_VALUE) >>> shift));
    }
  }

  /** Bits that are ordered as Spark orders doubles: the zeros are equal, so are all NaNs, which are the greatest. */
  private static long ordered(double value) {
    long bits = Double.doubleToLongBits(value == 0.0 ? 0.0 : value);
    return bits < 0 ? bits ^ Long.MAX_VALUE : bits;
  }

  @Override
  UnaryFunction over(Expression other) {
    return new OrderBytes(other);
  }

  @Override
  public String sql() {
    return "order of " + child().sql();
  }

  @Override
  public DataType dataType() {
    return DataTypes.BinaryType;
  }
}
