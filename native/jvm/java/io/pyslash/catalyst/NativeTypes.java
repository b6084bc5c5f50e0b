package io.pyslash.catalyst;

import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;

/** Spark's data types as the native core names them. */
public final class NativeTypes {
  private record Native(String name, Object zero) {}

  private static final Map<DataType, Native> TYPES =
      Map.ofEntries(
          Map.entry(DataTypes.BooleanType, new Native("boolean", false)),
          Map.entry(DataTypes.ByteType, new Native("int8", (byte) 0)),
          Map.entry(DataTypes.ShortType, new Native("int16", (short) 0)),
          Map.entry(DataTypes.IntegerType, new Native("int32", 0)),
          Map.entry(DataTypes.LongType, new Native("int64", 0L)),
          Map.entry(DataTypes.FloatType, new Native("float32", 0.0f)),
          Map.entry(DataTypes.DoubleType, new Native("float64", 0.0)),
          Map.entry(DataTypes.DateType, new Native("date", 0)),
          Map.entry(DataTypes.TimestampType, new Native("timestamp", 0L)),
          Map.entry(DataTypes.TimestampNTZType, new Native("timestamp_ntz", 0L)),
          Map.entry(DataTypes.StringType, new Native("string", UTF8String.EMPTY_UTF8)),
          Map.entry(DataTypes.BinaryType, new Native("binary", new byte[0])));

  private NativeTypes() {}

  /** Null: the native core has no such type. */
  public static String nameOf(DataType type) {
    if (type instanceof DecimalType decimal) {
      return "decimal(" + decimal.precision() + "," + decimal.scale() + ")";
    }
    Native known = TYPES.get(type);
    return known == null ? null : known.name();
  }

  /** A value of a type that the native core has, for where any will do. */
  public static Expression zero(DataType type) {
    Object value =
        type instanceof DecimalType decimal
            ? Decimal.apply(0L, decimal.precision(), decimal.scale())
            : TYPES.get(type).zero();
    return new Literal(value, type);
  }
}
