package io.pyslash.records;

import io.pyslash.catalyst.OnlySpark;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.NoopFilters;
import org.apache.spark.sql.catalyst.StructFilters;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.csv.CSVFileFormat;
import org.apache.spark.sql.execution.datasources.json.JsonFileFormat;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/** The records of text files, one a line: how native code reads them, and how Spark does, as its source would. */
public abstract class LineRecords implements Serializable {
  private static final long serialVersionUID = 1L;

  // Of options, in lower case: those that choose files, and what Spark's scan itself adds.
  private static final Set<String> NOT_OF_RECORDS =
      Set.of(
          "path", "paths", "basepath", "pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter",
          "maxfilespertrigger", "maxbytespertrigger", "maxfileage", "maxcachedfiles", "latestfirst", "filenameonly",
          "cleansource", "sourcearchivedir", "ignoremissingfiles", "__globpaths__", "returning_batch");
  private static final String IGNORES_CORRUPT = "ignorecorruptfiles";
  private static final String MULTILINE = "multiline";

  /** Spark's own reader of records, for one split. */
  interface Parser {
    /** The rows of one line, each valid until the next. */
    Iterator<InternalRow> parse(byte[] line);

    /** Judges the line that names the columns. */
    void checkHeader(byte[] line);
  }

  /** What a source is told. */
  public record Source(
      SQLConf conf, StructType data, StructType columns, List<Filter> filters, Map<String, String> options) {
    /** Those that may change what a record is read as. */
    Map<String, String> optionsOfRecords() {
      Map<String, String> found = new HashMap<>();
      boolean ignoresCorrupt = conf.ignoreCorruptFiles();
      for (Map.Entry<String, String> option : options.entrySet()) {
        String name = option.getKey().toLowerCase(Locale.ROOT);
        String value = option.getValue().strip();
        if (name.equals(IGNORES_CORRUPT)) {
          ignoresCorrupt = Boolean.parseBoolean(value);
        } else if (!NOT_OF_RECORDS.contains(name) && !(name.equals(MULTILINE) && value.equalsIgnoreCase("false"))) {
          found.put(option.getKey(), option.getValue());
        }
      }
      if (ignoresCorrupt) {
        throw new OnlySpark("corrupt files are ignored (ignoreCorruptFiles): how much of one is read depends on the reader");
      }
      return found;
    }
  }

  final StructType columns; // of the rows
  final StructType inOrder; // the same as Spark's parser gives them: in the order of the files' columns
  private final String corrupt;
  private final List<Filter> filters;
  private final boolean pushesFilters;

  LineRecords(Source source, String corrupt, boolean pushesFilters) {
    columns = source.columns();
    this.corrupt = corrupt;
    this.pushesFilters = pushesFilters;
    List<String> names = List.of(source.data().fieldNames());
    inOrder =
        new StructType(
            Arrays.stream(columns.fields())
                .sorted(Comparator.comparingInt(column -> names.indexOf(column.name())))
                .toArray(StructField[]::new));
    filters =
        source.filters().stream().filter(filter -> !List.of(filter.references()).contains(corrupt)).toList();
  }

  public static boolean isJson(FileFormat format) {
    return format.getClass() == JsonFileFormat.class;
  }

  public static boolean isCsv(FileFormat format) {
    return format.getClass() == CSVFileFormat.class;
  }

  /** The source of this class, if native code may read its records; else null. */
  public static FileFormat formatOf(Class<?> source) {
    if (source == JsonFileFormat.class) {
      return new JsonFileFormat();
    }
    return source == CSVFileFormat.class ? new CSVFileFormat() : null;
  }

  /** @throws OnlySpark it depends on what is not known to be read alike */
  public static LineRecords of(FileFormat format, Source source) {
    return isJson(format) ? new JsonRecords(source) : new CsvRecords(source);
  }

  /** The columns as the native core's RecordReader has them. */
  abstract byte[] schema();

  /** Whether the first line of a file is no record. */
  abstract boolean hasHeader();

  abstract Parser parser(PartitionedFile file);

  abstract StructFilters newFilters(List<Filter> filters, StructType columns);

  /** What Spark asks about a record, while it reads it. */
  final StructFilters newFilters() {
    return pushesFilters ? newFilters(filters, columns) : new NoopFilters();
  }

  /** The columns that it asks about. */
  final int[] filtered() {
    Set<String> names = new HashSet<>();
    if (pushesFilters) {
      filters.forEach(filter -> names.addAll(List.of(filter.references())));
    }
    String[] found = columns.fieldNames();
    return IntStream.range(0, found.length).filter(i -> names.contains(found[i])).toArray();
  }

  final scala.collection.immutable.Seq<Filter> filters() {
    return CollectionConverters.asScala(filters).toSeq();
  }

  /** What makes rows of Spark's parser rows of these columns. */
  final UnsafeProjection toColumns() {
    List<Expression> found = new ArrayList<>();
    for (StructField column : columns.fields()) {
      found.add(new BoundReference(inOrder.fieldIndex(column.name()), column.dataType(), true));
    }
    return UnsafeProjection.create(CollectionConverters.asScala(found).toSeq());
  }

  /** Those that a record may have. */
  final StructType withoutCorrupt(StructType some) {
    return without(corrupt, some);
  }

  static StructType without(String name, StructType columns) {
    return new StructType(
        Arrays.stream(columns.fields()).filter(column -> !column.name().equals(name)).toArray(StructField[]::new));
  }
}
