package io.pyslash;

import io.pyslash.FileScan.OnlySpark;
import java.nio.charset.StandardCharsets;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.JsonToStructs;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** The columns of records, told to the native core's JsonReader; or why Spark has to read all of them. */
final class JsonSchema {
  private static final String DEFAULT_VALUE = "EXISTS_DEFAULT";
  private static final String CORRUPT_RECORD = "columnnameofcorruptrecord";
  private static final Set<String> MODES = Set.of("PERMISSIVE", "DROPMALFORMED", "FAILFAST");
  private static final int MOST_DIGITS = 18; // of a decimal: they fit a long

  private final StringBuilder text = new StringBuilder("pyslash-json 1\n");
  private final String reader; // `from_json` or the source, for the reason
  private final int fields;

  /**
   * Of a `from_json`.
   *
   * @throws OnlySpark it depends on what is not known to be read alike
   */
  static JsonSchema of(JsonToStructs json, SQLConf conf) {
    if (!(json.dataType() instanceof StructType columns)) {
      throw new OnlySpark("from_json gives " + json.dataType().simpleString() + ", not a struct");
    }
    Map<String, String> options = CollectionConverters.asJava(json.options());
    return new JsonSchema("from_json", columns, options, Set.of(), json.timeZoneId().get(), conf);
  }

  /**
   * `harmless`: options, in lower case, that do not change what a record is read as.
   *
   * @throws OnlySpark it depends on what is not known to be read alike
   */
  JsonSchema(
      String reader, StructType columns, Map<String, String> options, Set<String> harmless, String zone, SQLConf conf) {
    this.reader = reader;
    if (conf.legacyTimeParserPolicy().toString().equalsIgnoreCase("LEGACY")) {
      throw new OnlySpark("times are read as Spark 2 did (" + SQLConf.LEGACY_TIME_PARSER_POLICY().key() + ")");
    }
    String corrupt = conf.columnNameOfCorruptRecord();
    for (Map.Entry<String, String> option : options.entrySet()) {
      String name = option.getKey().toLowerCase(Locale.ROOT);
      if (name.equals(CORRUPT_RECORD)) {
        corrupt = option.getValue();
      } else if (name.equals("mode")) {
        if (!MODES.contains(option.getValue().toUpperCase(Locale.ROOT))) {
          throw new OnlySpark(reader + " has the mode " + option.getValue());
        }
      } else if (!harmless.contains(name)) {
        throw new OnlySpark(reader + " has the option " + option.getKey());
      }
    }
    fields = columns.length();
    text.append("zone ").append(offset(zone)).append('\n');
    describe(columns, corrupt);
  }

  byte[] text() {
    return text.toString().getBytes(StandardCharsets.US_ASCII);
  }

  int fields() {
    return fields;
  }

  private static String offset(String zone) {
    ZoneId offset = DateTimeUtils.getZoneId(zone).normalized();
    return offset instanceof ZoneOffset fixed ? Integer.toString(fixed.getTotalSeconds()) : "-";
  }

  /** `corrupt`: the column that no record has; null: there is none such in a struct. */
  private void describe(StructType columns, String corrupt) {
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
      String name = HexFormat.of().formatHex(column.name().getBytes(StandardCharsets.UTF_8));
      if (column.name().equals(corrupt)) {
        text.append("field none -\n");
      } else if (column.dataType() instanceof StructType struct && struct.length() > 0) {
        text.append("struct ").append(name).append(' ').append(struct.length()).append('\n');
        describe(struct, null);
      } else {
        text.append("field ").append(type(column.dataType())).append(' ').append(name).append('\n');
      }
    }
  }

  private static String type(DataType type) {
    boolean isLong = type instanceof DecimalType decimal && decimal.precision() > MOST_DIGITS;
    String name = isLong || type.equals(DataTypes.BinaryType) ? null : NativeTypes.nameOf(type);
    return name == null ? "other" : name;
  }
}
