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

/** The columns of a `from_json`, told to the native core's JsonReader; or why Spark has to read all of its records. */
final class JsonSchema {
  private static final String DEFAULT_VALUE = "EXISTS_DEFAULT";
  private static final String CORRUPT_RECORD = "columnNameOfCorruptRecord";
  private static final int MOST_DIGITS = 18; // of a decimal: they fit a long

  private final StringBuilder text = new StringBuilder("pyslash-json 1\n");
  private final int fields;

  /** @throws OnlySpark it depends on what is not known to be read alike */
  JsonSchema(JsonToStructs json, SQLConf conf) {
    if (!(json.dataType() instanceof StructType columns)) {
      throw new OnlySpark("from_json gives " + json.dataType().simpleString() + ", not a struct");
    }
    if (conf.legacyTimeParserPolicy().toString().equalsIgnoreCase("LEGACY")) {
      throw new OnlySpark("times are read as Spark 2 did (" + SQLConf.LEGACY_TIME_PARSER_POLICY().key() + ")");
    }
    String corrupt = conf.columnNameOfCorruptRecord();
    for (Map.Entry<String, String> option : CollectionConverters.asJava(json.options()).entrySet()) {
      if (option.getKey().equalsIgnoreCase(CORRUPT_RECORD)) {
        corrupt = option.getValue();
      } else if (!option.getKey().equalsIgnoreCase("mode")) {
        throw new OnlySpark("from_json has the option " + option.getKey());
      } else if (!Set.of("PERMISSIVE", "FAILFAST").contains(option.getValue().toUpperCase(Locale.ROOT))) {
        throw new OnlySpark("from_json has the mode " + option.getValue());
      }
    }
    fields = columns.length();
    text.append("zone ").append(zone(json)).append('\n');
    describe(columns, corrupt);
  }

  byte[] text() {
    return text.toString().getBytes(StandardCharsets.US_ASCII);
  }

  int fields() {
    return fields;
  }

  private static String zone(JsonToStructs json) {
    ZoneId zone = DateTimeUtils.getZoneId(json.timeZoneId().get());
    ZoneId offset = zone.normalized();
    return offset instanceof ZoneOffset fixed ? Integer.toString(fixed.getTotalSeconds()) : "-";
  }

  /** `corrupt`: the column that no record has; null: there is none such in a struct. */
  private void describe(StructType columns, String corrupt) {
    Set<String> names = new HashSet<>();
    for (StructField column : columns.fields()) {
      if (!names.add(column.name())) {
        throw new OnlySpark("from_json has the column " + column.name() + " twice");
      }
      if (column.metadata().contains(DEFAULT_VALUE)) {
        throw new OnlySpark("from_json has a default value for " + column.name());
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
