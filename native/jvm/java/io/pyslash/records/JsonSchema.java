package io.pyslash.records;

import io.pyslash.catalyst.OnlySpark;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.JsonToStructs;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** Columns that records of JSON are read into. */
public final class JsonSchema extends RecordSchema {
  private static final int MOST_DEPTH = 16; // of fields, as native code has it

  /**
   * Of a `from_json`.
   *
   * @throws OnlySpark it depends on what is not known to be read alike
   */
  public static JsonSchema of(JsonToStructs json, SQLConf conf) {
    if (!(json.dataType() instanceof StructType columns)) {
      throw new OnlySpark("from_json gives " + json.dataType().simpleString() + ", not a struct");
    }
    Map<String, String> options = CollectionConverters.asJava(json.options());
    JsonSchema schema = new JsonSchema("from_json", columns, options, Set.of(), json.timeZoneId().get(), conf);
    schema.checkFunction(columns);
    return schema;
  }

  /**
   * `harmless`: options, in lower case, that do not change what a record is read as.
   *
   * @throws OnlySpark it depends on what is not known to be read alike
   */
  JsonSchema(
      String reader, StructType columns, Map<String, String> options, Set<String> harmless, String zone, SQLConf conf) {
    super(reader, options, harmless, conf);
    text.append("pyslash-json 1\nzone ").append(offset(zone)).append('\n');
    describe(columns, corrupt, 1);
  }

  /** What Spark's function refuses at its first record; a source, before it reads any. */
  private void checkFunction(StructType columns) {
    if (mode.equals("DROPMALFORMED")) {
      throw new OnlySpark(reader + " has the mode " + mode);
    }
    for (StructField column : columns.fields()) {
      if (column.name().equals(corrupt) && !column.dataType().equals(DataTypes.StringType)) {
        throw typed(column);
      }
    }
  }

  /** `corrupt`: the column that no record has; null: there is none such in a struct. `depth`: 1 of the record's own. */
  private void describe(StructType columns, String corrupt, int depth) {
    check(columns);
    for (StructField column : columns.fields()) {
      String name = hex(column.name());
      if (column.name().equals(corrupt)) {
        text.append("field none -\n");
      } else if (column.dataType() instanceof StructType struct && struct.length() > 0 && depth < MOST_DEPTH) {
        text.append("struct ").append(name).append(' ').append(struct.length()).append('\n');
        describe(struct, null, depth + 1);
      } else {
        text.append("field ").append(typeOf(column)).append(' ').append(name).append('\n');
      }
    }
  }

  private String typeOf(StructField column) {
    DataType type = column.dataType();
    if (isWide(type)) {
      return "wide";
    }
    if (UnsafeRow.isMutable(type) && !UnsafeRow.isFixedLength(type)) { // Spark keeps room for its null, too
      throw typed(column);
    }
    return type(column);
  }
}
