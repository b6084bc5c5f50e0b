package io.pyslash.records;

import io.pyslash.catalyst.OnlySpark;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.csv.CSVOptions;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Columns that lines of CSV are read into, and how the lines are written. */
final class CsvSchema extends RecordSchema {
  // Of options, in lower case: what is looked at below, and what matters only to a schema that is inferred, to writers, or
  // to fields that Spark's parser gets.
  private static final Set<String> KNOWN =
      Set.of(
          "sep", "delimiter", "quote", "escape", "header", "enforceschema", "nullvalue", "emptyvalue", "encoding", "charset",
          "ignoreleadingwhitespace", "ignoretrailingwhitespace", "maxcharspercolumn", "inferschema", "samplingratio",
          "preferdate", "enabledatetimeparsingfallback", "escapequotes", "quoteall");
  private static final int MOST_FIELDS = 20_000; // of a record, as native code has it

  /**
   * `data`: all columns of the files; `columns`: those that are read; `options`: as they are given, and as Spark has them.
   *
   * @throws OnlySpark it depends on what is not known to be read alike
   */
  CsvSchema(StructType data, StructType columns, Map<String, String> options, CSVOptions csv, SQLConf conf) {
    super("the CSV source", options, KNOWN, conf);
    check(data);
    check(columns);
    check(csv);
    StructType fields = without(data);
    StructType read = without(columns);
    boolean chooses = csv.isColumnPruningEnabled(columns) && read.length() < fields.length();
    text.append("pyslash-csv 1\nzone ").append(offset(conf.sessionLocalTimeZone()));
    text.append("\nseparator ").append(hex(csv.delimiter()));
    text.append("\nescape ").append(hex(String.valueOf(csv.escape())));
    text.append("\nnull ").append(csv.nullValue().isEmpty() ? "-" : hex(csv.nullValue()));
    text.append("\nfields ").append(chooses ? "-" : Integer.toString(fields.length())).append('\n');
    for (StructField column : columns.fields()) {
      if (column.name().equals(corrupt)) {
        text.append("field none -\n");
      } else {
        int place = fields.fieldIndex(column.name());
        if (place >= MOST_FIELDS) {
          throw new OnlySpark(reader + " has more than " + MOST_FIELDS + " columns");
        }
        text.append("field ").append(type(column)).append(' ').append(place).append('\n');
      }
    }
  }

  private void check(CSVOptions csv) {
    String separator = csv.delimiter();
    char first = separator.charAt(0);
    if (separator.length() != 1 || (first != '\t' && (first <= ' ' || first > '~')) || "\"\\".indexOf(first) >= 0) {
      throw unknown("sep");
    } else if (csv.quote() != '"') {
      throw unknown("quote");
    } else if (csv.escape() != '\\' && csv.escape() != '"') {
      throw unknown("escape");
    } else if (!csv.emptyValueInRead().isEmpty()) {
      throw unknown("emptyValue");
    } else if (!csv.charset().equalsIgnoreCase("UTF-8")) {
      throw unknown("encoding");
    } else if (csv.ignoreLeadingWhiteSpaceInRead() || csv.ignoreTrailingWhiteSpaceInRead()) {
      throw unknown(csv.ignoreLeadingWhiteSpaceInRead() ? "ignoreLeadingWhiteSpace" : "ignoreTrailingWhiteSpace");
    } else if (csv.maxCharsPerColumn() != -1) {
      throw unknown("maxCharsPerColumn");
    } else if (csv.inputBufferSize().isDefined()) {
      throw new OnlySpark("the buffer of the CSV parser has a size (" + SQLConf.CSV_INPUT_BUFFER_SIZE().key() + ")");
    }
  }

  /** The columns but that of corrupt records. */
  private StructType without(StructType columns) {
    return LineRecords.without(corrupt, columns);
  }
}
