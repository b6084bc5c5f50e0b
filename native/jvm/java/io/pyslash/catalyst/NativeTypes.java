package io.pyslash.catalyst;

import java.util.Map;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;

/** Spark's data types as the native core names them. */
public final class NativeTypes {
  private static final Map<DataType, String> NAMES =
      Map.ofEntries(
          Map.entry(DataTypes.BooleanType, "boolean"),
          Map.entry(DataTypes.ByteType, "int8"),
          Map.entry(DataTypes.ShortType, "int16"),
          Map.entry(DataTypes.IntegerType, "int32"),
          Map.entry(DataTypes.LongType, "int64"),
          Map.entry(DataTypes.FloatType, "float32"),
          Map.entry(DataTypes.DoubleType, "float64"),
          Map.entry(DataTypes.DateType, "date"),
          Map.entry(DataTypes.TimestampType, "timestamp"),
          Map.entry(DataTypes.TimestampNTZType, "timestamp_ntz"),
          Map.entry(DataTypes.StringType, "string"),
          Map.entry(DataTypes.BinaryType, "binary"));

  private NativeTypes() {}

  /** Null: the native core has no such type. */
  public static String nameOf(DataType type) {
    return type instanceof DecimalType decimal
        ? "decimal(" + decimal.precision() + "," + decimal.scale() + ")"
        : NAMES.get(type);
  }
}
