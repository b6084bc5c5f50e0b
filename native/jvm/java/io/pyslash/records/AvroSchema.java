package io.pyslash.records;

import io.pyslash.catalyst.OnlySpark;
import io.pyslash.shim.AvroFunction;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.IntPredicate;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/** The types of records of Avro by the schema of their writer, and the columns that `from_avro` makes of them. */
public final class AvroSchema extends RecordSchema {
  private static final String AS_JAVA_STRINGS = "avro.java.string"; // whose bytes are UTF-8, whatever they were
  private static final Set<String> AS_OBJECTS = Set.of("java-class", "java-key-class"); // of classes, by Avro's reader
  private static final String LIMITS = "org.apache.avro.limits."; // system properties
  private static final String OTHER = "other";
  private static final String WIDE = "wide"; // the same, where Spark keeps room for a null
  private static final int MOST_DEPTH = 32;
  private static final int MOST_SYMBOLS = 1 << 12; // of an enum
  private static final int MOST_FIXED = 1 << 20; // bytes

  /** How native code reads a type, and what Spark makes of it. */
  private record Kind(String word, DataType type) {}

  private static final Map<String, Kind> KINDS =
      Map.ofEntries(
          Map.entry("null", new Kind("null", DataTypes.NullType)),
          Map.entry("boolean", new Kind("boolean", DataTypes.BooleanType)),
          Map.entry("int", new Kind("int", DataTypes.IntegerType)),
          Map.entry("long", new Kind("long", DataTypes.LongType)),
          Map.entry("float", new Kind("float", DataTypes.FloatType)),
          Map.entry("double", new Kind("double", DataTypes.DoubleType)),
          Map.entry("bytes", new Kind("text", DataTypes.BinaryType)),
          Map.entry("int date", new Kind("date", DataTypes.DateType)),
          Map.entry("long timestamp-millis", new Kind("timestamp-millis", DataTypes.TimestampType)),
          Map.entry("long timestamp-micros", new Kind("timestamp-micros", DataTypes.TimestampType)),
          Map.entry("long local-timestamp-millis", new Kind("local-millis", DataTypes.TimestampNTZType)),
          Map.entry("long local-timestamp-micros", new Kind("local-micros", DataTypes.TimestampNTZType)));

  /**
   * Of a `from_avro`.
   *
   * @param isUsed whether the query looks at a field, by its place in the record
   * @throws OnlySpark it depends on what is not known to be read alike
   */
  public AvroSchema(Expression function, IntPredicate isUsed, SQLConf conf) {
    super("from_avro", AvroFunction.options(function), Set.of(), conf);
    Schema record = known(function, conf);
    if (System.getProperties().stringPropertyNames().stream().anyMatch(name -> name.startsWith(LIMITS))) {
      throw new OnlySpark("Avro's reader has limits of its own (" + LIMITS + "*)");
    }
    if (record.getType() != Schema.Type.RECORD || !(function.dataType() instanceof StructType columns)) {
      throw new OnlySpark("from_avro gives " + function.dataType().simpleString() + ", not a struct");
    }
    text.append("pyslash-avro 1\n").append(record(record, columns, isUsed, 0)).append('\n');
  }

  private static Schema known(Expression function, SQLConf conf) {
    try {
      return SQLConf.withExistingConf(conf, () -> AvroFunction.schema(function));
    } catch (Exception failure) { // which will be that of its records
      throw new OnlySpark("from_avro has a schema that Spark does not take: " + failure.getMessage());
    }
  }

  private String record(Schema record, StructType columns, IntPredicate isUsed, int depth) {
    List<Schema.Field> fields = record.getFields();
    Set<String> names = new HashSet<>();
    StringBuilder words = new StringBuilder("record ").append(fields.size());
    for (int at = 0; at < fields.size(); at++) {
      Schema.Field field = fields.get(at);
      if (!names.add(field.name().toLowerCase(Locale.ROOT))) {
        throw new OnlySpark("from_avro has the field " + field.name() + " twice, but for its case");
      }
      boolean used = isUsed.test(at);
      DataType spark = columns.apply(at).dataType();
      String type = type(field.schema(), spark, used, depth + 1);
      if (depth == 0 && isAlwaysSparks(type, used)) {
        throw new OnlySpark("from_avro has the field " + field.name() + " of the type " + spark.simpleString());
      }
      words.append(depth == 0 ? "\n" : " ").append(used ? "column " : "unused ").append(type);
    }
    return words.toString();
  }

  /** Whether native code reads no record that has such a field. */
  private static boolean isAlwaysSparks(String type, boolean used) {
    String first = type.split(" ", 2)[0];
    return first.equals(OTHER)
        || first.equals("union") && !type.contains(" null")
        || used && Set.of("fixed", "array", "map").contains(first);
  }

  /** Avro's type in the words of the native core, if it is what Spark makes this type of. */
  private String type(Schema avro, DataType spark, boolean used, int depth) {
    if (depth == MOST_DEPTH || AS_OBJECTS.stream().anyMatch(name -> avro.getObjectProp(name) != null)) {
      return OTHER;
    }
    return switch (avro.getType()) {
      case RECORD -> spark instanceof StructType columns && columns.length() == avro.getFields().size()
          ? record(avro, columns, at -> used, depth)
          : OTHER;
      case ARRAY -> spark instanceof ArrayType array
          ? "array " + type(avro.getElementType(), array.elementType(), used, depth + 1)
          : OTHER;
      case MAP -> spark instanceof MapType map ? "map " + type(avro.getValueType(), map.valueType(), used, depth + 1) : OTHER;
      case UNION -> union(avro.getTypes(), spark, used, depth);
      case ENUM -> spark.equals(DataTypes.StringType) ? symbols(avro.getEnumSymbols()) : OTHER;
      case FIXED -> avro.getFixedSize() <= MOST_FIXED ? fixed(avro, spark) : OTHER;
      case BYTES -> decimal(avro, spark, "decimal ");
      case STRING -> spark.equals(DataTypes.StringType) ? string(avro) : OTHER;
      default -> plain(avro, spark);
    };
  }

  private static String string(Schema avro) {
    return avro.getObjectProp(AS_JAVA_STRINGS) == null ? "text" : "utf8";
  }

  private static String plain(Schema avro, DataType spark) {
    LogicalType logical = avro.getLogicalType();
    Kind kind = KINDS.get(avro.getType().getName() + (logical == null ? "" : " " + logical.getName()));
    return kind != null && kind.type().equals(spark) ? kind.word() : OTHER;
  }

  private static String fixed(Schema avro, DataType spark) {
    if (avro.getLogicalType() == null && spark.equals(DataTypes.BinaryType)) {
      return "fixed " + avro.getFixedSize();
    }
    return avro.getFixedSize() <= Long.BYTES ? decimal(avro, spark, "fixed-decimal " + avro.getFixedSize() + " ") : OTHER;
  }

  private static String decimal(Schema avro, DataType spark, String word) {
    if (avro.getLogicalType() instanceof LogicalTypes.Decimal decimal) {
      return !isWide(spark) && spark.equals(new DecimalType(decimal.getPrecision(), decimal.getScale()))
          ? word + decimal.getPrecision()
          : OTHER;
    }
    return plain(avro, spark);
  }

  private static String symbols(List<String> symbols) {
    if (symbols.size() > MOST_SYMBOLS) {
      return OTHER;
    }
    StringBuilder words = new StringBuilder("enum ").append(symbols.size());
    symbols.forEach(symbol -> words.append(' ').append(hex(symbol)));
    return words.toString();
  }

  private String union(List<Schema> types, DataType spark, boolean used, int depth) {
    boolean isOption = types.size() == 2 && types.stream().filter(one -> one.getType() == Schema.Type.NULL).count() == 1;
    if (!isOption) {
      return unlike(types);
    }
    StringBuilder words = new StringBuilder("option");
    for (Schema one : types) {
      String type = isWide(spark) ? WIDE : type(one, spark, used, depth + 1);
      words.append(' ').append(one.getType() == Schema.Type.NULL ? "null" : type);
    }
    return words.toString();
  }

  /** A union of which Spark makes a struct, or a wider type: native code reads that it is null. */
  private static String unlike(List<Schema> types) {
    StringBuilder words = new StringBuilder("union ").append(types.size());
    for (Schema one : types) {
      words.append(' ').append(one.getType() == Schema.Type.NULL ? "null" : OTHER);
    }
    return words.toString();
  }
}
