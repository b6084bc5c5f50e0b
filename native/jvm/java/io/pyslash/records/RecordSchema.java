package io.pyslash.records;

import io.pyslash.catalyst.NativeTypes;
import io.pyslash.catalyst.OnlySpark;
import java.nio.charset.StandardCharsets;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VariantType;

/** The columns of records, told to the native core's RecordReader; or why Spark has to read all of them. */
public abstract class RecordSchema {
  private static final String DEFAULT_VALUE = "EXISTS_DEFAULT";
  private static final String CORRUPT_RECORD = "columnnameofcorruptrecord";
  private static final Set<String> MODES = Set.of("PERMISSIVE", "DROPMALFORMED", "FAILFAST");
  static final int MOST_DIGITS = 18; // of a decimal: they fit a long

  final StringBuilder text = new StringBuilder();
  final String reader; // `from_json` or a source, for the reason
  final String corrupt; // the column of corrupt records
  final String mode; // in upper case

  /**
   * `harmless`: options, in lower case, that do not change what a record is read as, or that the schema tells.
   *
   * @throws OnlySpark it depends on what is not known to be read alike
   */
  RecordSchema(String reader, Map<String, String> options, Set<String> harmless, SQLConf conf) {
    this.reader = reader;
    if (conf.legacyTimeParserPolicy().toString().equalsIgnoreCase("LEGACY")) {
      throw new OnlySpark("times are read as Spark 2 did (" + SQLConf.LEGACY_TIME_PARSER_POLICY().key() + ")");
    }
    String named = conf.columnNameOfCorruptRecord();
    String asked = "PERMISSIVE";
    for (Map.Entry<String, String> option : options.entrySet()) {
      String name = option.getKey().toLowerCase(Locale.ROOT);
      if (name.equals(CORRUPT_RECORD)) {
        named = option.getValue();
      } else if (name.equals("mode")) {
        asked = option.getValue().toUpperCase(Locale.ROOT);
        if (!MODES.contains(asked)) {
          throw new OnlySpark(reader + " has the mode " + option.getValue());
        }
      } else if (!harmless.contains(name)) {
        throw unknown(option.getKey());
      }
    }
    corrupt = named;
    mode = asked;
  }

  public byte[] text() {
    return text.toString().getBytes(StandardCharsets.US_ASCII);
  }

  final OnlySpark unknown(String option) {
    return new OnlySpark(reader + " has the option " + option);
  }

  /** Spark reads a column that native code could not even find null. */
  final OnlySpark typed(StructField column) {
    return new OnlySpark(reader + " has the column " + column.name() + " of the type " + column.dataType().simpleString());
  }

  /** Seconds to the east of UTC; - if they differ from time to time. */
  static String offset(String zone) {
    ZoneId offset = DateTimeUtils.getZoneId(zone).normalized();
    return offset instanceof ZoneOffset fixed ? Integer.toString(fixed.getTotalSeconds()) : "-";
  }

  /** Columns of one record or struct. */
  final void check(StructType columns) {
    Set<String> names = new HashSet<>();
    for (StructField column : columns.fields()) {
      if (!names.add(column.name())) {
        throw new OnlySpark(reader + " has the column " + column.name() + " twice");
      }
      if (column.metadata().contains(DEFAULT_VALUE)) {
        throw new OnlySpark(reader + " has a default value for " + column.name());
      }
      if (!column.nullable()) {
        throw new OnlySpark(reader + " has the column " + column.name() + ", which is not nullable");
      }
    }
  }

  static String hex(String name) {
    return HexFormat.of().formatHex(name.getBytes(StandardCharsets.UTF_8));
  }

  /** A decimal that native code does not read, and for whose null Spark keeps room in a row. */
  static boolean isWide(DataType type) {
    return type instanceof DecimalType decimal && decimal.precision() > MOST_DIGITS;
  }

  /** How native code reads a column; `other`: only that it is null. */
  final String type(StructField column) {
    DataType type = column.dataType();
    if (type instanceof VariantType) { // Spark makes a value of null, too
      throw typed(column);
    }
    boolean isNegative = type instanceof DecimalType decimal && decimal.scale() < 0; // Spark's legacy
    String name = isWide(type) || isNegative || type.equals(DataTypes.BinaryType) ? null : NativeTypes.nameOf(type);
    return name == null ? "other" : name;
  }
}
