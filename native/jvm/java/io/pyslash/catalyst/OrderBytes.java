package io.pyslash.catalyst;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.YearMonthIntervalType;

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

  private transient Whole form;
  private transient Bytes out;

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
    if (form == null) {
      form = whole(child().dataType());
      out = new Bytes();
    }
    out.size = 0;
    form.write(value, out);
    return Arrays.copyOf(out.data, out.size);
  }

  /** How values of a type are written that are in hand. */
  private interface Whole {
    void write(Object value, Bytes out);
  }

  /** How those are that lie in a row or in an array, and are not null. */
  private interface Field {
    void write(SpecializedGetters from, int at, Bytes out);
  }

  private static Whole whole(DataType type) {
    if (type instanceof StructType struct) {
      Field[] fields = new Field[struct.length()];
      for (int i = 0; i < fields.length; i++) {
        fields[i] = field(struct.fields()[i].dataType());
      }
      return (value, out) -> fields(fields, (InternalRow) value, out);
    }
    if (type instanceof ArrayType array) {
      Field element = field(array.elementType());
      return (value, out) -> elements(element, (ArrayData) value, out);
    }
    return (value, out) -> out.number(((Number) value).longValue()); // an interval, or a time of the day
  }

  private static Field field(DataType type) {
    if (type instanceof StructType struct) {
      Whole whole = whole(type);
      return (from, at, out) -> whole.write(from.getStruct(at, struct.length()), out);
    }
    if (type instanceof ArrayType) {
      Whole whole = whole(type);
      return (from, at, out) -> whole.write(from.getArray(at), out);
    }
    if (type instanceof DecimalType decimal) {
      return (from, at, out) -> decimal(from.getDecimal(at, decimal.precision(), decimal.scale()), decimal, out);
    }
    if (type instanceof StringType) {
      return (from, at, out) -> out.escaped(from.getUTF8String(at).getBytes());
    }
    if (type instanceof BinaryType) {
      return (from, at, out) -> out.escaped(from.getBinary(at));
    }
    if (type instanceof BooleanType) {
      return (from, at, out) -> out.number(from.getBoolean(at) ? 1 : 0);
    }
    if (type instanceof DoubleType) {
      return (from, at, out) -> out.number(ordered(from.getDouble(at)));
    }
    if (type instanceof FloatType) {
      return (from, at, out) -> out.number(ordered(from.getFloat(at)));
    }
    if (type instanceof ByteType) {
      return (from, at, out) -> out.number(from.getByte(at));
    }
    if (type instanceof ShortType) {
      return (from, at, out) -> out.number(from.getShort(at));
    }
    if (type instanceof IntegerType || type instanceof DateType || type instanceof YearMonthIntervalType) {
      return (from, at, out) -> out.number(from.getInt(at));
    }
    return (from, at, out) -> out.number(from.getLong(at));
  }

  private static void fields(Field[] fields, InternalRow row, Bytes out) {
    for (int i = 0; i < fields.length; i++) {
      nullable(fields[i], row, i, out);
    }
  }

  private static void elements(Field element, ArrayData array, Bytes out) {
    for (int i = 0; i < array.numElements(); i++) {
      nullable(element, array, i, out);
    }
    out.put(END);
  }

  private static void nullable(Field field, SpecializedGetters from, int at, Bytes out) {
    if (from.isNullAt(at)) {
      out.put(NULL);
    } else {
      out.put(PRESENT);
      field.write(from, at, out);
    }
  }

  private static void decimal(Decimal value, DecimalType type, Bytes out) {
    BigInteger unscaled = value.toJavaBigDecimal().setScale(type.scale(), RoundingMode.HALF_UP).unscaledValue();
    byte[] shifted = unscaled.add(BigInteger.ONE.shiftLeft(8 * DECIMAL_BYTES - 1)).toByteArray(); // not negative
    int unsigned = Math.min(shifted.length, DECIMAL_BYTES); // without a byte that is there for the sign alone
    for (int i = unsigned; i < DECIMAL_BYTES; i++) {
      out.put(0);
    }
    for (int i = shifted.length - unsigned; i < shifted.length; i++) {
      out.put(shifted[i]);
    }
  }

  /** Bits that are ordered as Spark orders doubles: the zeros are equal, so are all NaNs, which are the greatest. */
  private static long ordered(double value) {
    long bits = Double.doubleToLongBits(value == 0.0 ? 0.0 : value);
    return bits < 0 ? bits ^ Long.MAX_VALUE : bits;
  }

  /** Grows, and stays for the next value. */
  private static final class Bytes {
    private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

    private byte[] data = new byte[64];
    private int size;

    private void need(int more) {
      if (more > data.length - size) {
        data = Arrays.copyOf(data, Math.max(Math.addExact(size, more), (int) Math.min(2L * size, Integer.MAX_VALUE - 8)));
      }
    }

    private void put(int value) {
      need(1);
      data[size++] = (byte) value;
    }

    private void number(long value) {
      need(Long.BYTES);
      LONG.set(data, size, value ^ Long.MIN_VALUE);
      size += Long.BYTES;
    }

    private void escaped(byte[] value) {
      for (byte one : value) {
        put(one);
        if (one == 0) {
          put(ESCAPED);
        }
      }
      put(END);
      put(END);
    }
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
