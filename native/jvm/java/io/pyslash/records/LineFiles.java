package io.pyslash.records;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.CompressionCodecFactory;
import org.apache.hadoop.io.compress.SplittableCompressionCodec;
import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.LongAccumulator;
import org.apache.spark.util.SerializableConfiguration;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/** A source of Spark's, of text files with a record a line, whose splits are read by {@link LineRows}. */
final class LineFiles implements FileFormat, Serializable {
  private static final long serialVersionUID = 1L;
  private static final String LONGEST_LINE = "mapreduce.input.linerecordreader.line.maxlength";

  private final FileFormat spark;
  private final LongAccumulator leftToSpark;
  private final boolean asPages;

  /**
   * `leftToSpark` counts records; `asPages`: rows may come as {@link LinePage}s, if no filter is to be asked about them.
   */
  LineFiles(FileFormat spark, LongAccumulator leftToSpark, boolean asPages) {
    this.spark = spark;
    this.leftToSpark = leftToSpark;
    this.asPages = asPages;
  }

  @Override
  public boolean isSplitable(SparkSession session, Map<String, String> options, Path path) {
    return spark.isSplitable(session, options, path);
  }

  @Override
  public Option<StructType> inferSchema(SparkSession session, Map<String, String> options, Seq<FileStatus> files) {
    return spark.inferSchema(session, options, files);
  }

  @Override
  public OutputWriterFactory prepareWrite(
      SparkSession session, Job job, Map<String, String> options, StructType dataSchema) {
    return spark.prepareWrite(session, job, options, dataSchema);
  }

  @Override
  public String toString() {
    return spark.toString();
  }

  @Override
  public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
      SparkSession session,
      StructType dataSchema,
      StructType partitionSchema,
      StructType requiredSchema,
      Seq<Filter> filters,
      Map<String, String> options,
      Configuration hadoop) {
    if (partitionSchema.isEmpty()) { // nothing to append: the rows are UnsafeRows as they are
      return buildReader(session, dataSchema, partitionSchema, requiredSchema, filters, options, hadoop);
    }
    return FileFormat.super.buildReaderWithPartitionValues(
        session, dataSchema, partitionSchema, requiredSchema, filters, options, hadoop);
  }

  @Override
  public Function1<PartitionedFile, Iterator<InternalRow>> buildReader(
      SparkSession session,
      StructType dataSchema,
      StructType partitionSchema,
      StructType requiredSchema,
      Seq<Filter> filters,
      Map<String, String> options,
      Configuration hadoop) {
    LineRecords records =
        LineRecords.of(
            spark,
            new LineRecords.Source(
                session.sessionState().conf(),
                dataSchema,
                requiredSchema,
                List.copyOf(CollectionConverters.asJava(filters)),
                CollectionConverters.asJava(options)));
    Function1<PartitionedFile, Iterator<InternalRow>> bySpark =
        spark.buildReader(session, dataSchema, partitionSchema, records.inOrder, filters, options, hadoop);
    boolean onlySpark = hadoop.getInt(LONGEST_LINE, Integer.MAX_VALUE) != Integer.MAX_VALUE;
    Broadcast<SerializableConfiguration> shared =
        session
            .sparkContext()
            .broadcast(new SerializableConfiguration(hadoop), ClassTag$.MODULE$.apply(SerializableConfiguration.class));
    return new Splits(records, bySpark, onlySpark, shared, leftToSpark, asPages);
  }

  /** A split to its rows. */
  private static final class Splits extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>>
      implements Serializable {
    private static final long serialVersionUID = 1L;
    private final LineRecords records;
    private final Function1<PartitionedFile, Iterator<InternalRow>> bySpark;
    private final boolean onlySpark;
    private final Broadcast<SerializableConfiguration> hadoop;
    private final LongAccumulator leftToSpark;
    private final boolean asPages;

    Splits(
        LineRecords records,
        Function1<PartitionedFile, Iterator<InternalRow>> bySpark,
        boolean onlySpark,
        Broadcast<SerializableConfiguration> hadoop,
        LongAccumulator leftToSpark,
        boolean asPages) {
      this.records = records;
      this.bySpark = bySpark;
      this.onlySpark = onlySpark;
      this.hadoop = hadoop;
      this.leftToSpark = leftToSpark;
      this.asPages = asPages;
    }

    @Override
    public Iterator<InternalRow> apply(PartitionedFile file) {
      Configuration conf = hadoop.value().value();
      Path path = file.toPath();
      CompressionCodec codec = new CompressionCodecFactory(conf).getCodec(path);
      if (onlySpark || codec instanceof SplittableCompressionCodec || (codec != null && file.start() != 0)) {
        return bySpark.apply(file).map(new InColumns(records));
      }
      try {
        return rows(
            codec == null
                ? lines(file, TextBytes.of(path, file.start(), conf), file.start(), file.length())
                : lines(file, TextBytes.of(path, codec, conf), 0, Long.MAX_VALUE));
      } catch (IOException failure) {
        throw sneaked(failure);
      }
    }

    private LineRows lines(PartitionedFile file, TextBytes input, long start, long length) {
      return new LineRows(records, file, input, start, length, asPages, leftToSpark);
    }
  }

  /** Rows of Spark's reader with the columns in their order. */
  private static final class InColumns extends AbstractFunction1<InternalRow, InternalRow> {
    private final UnsafeProjection columns;

    InColumns(LineRecords records) {
      columns = records.toColumns();
    }

    @Override
    public InternalRow apply(InternalRow row) {
      return columns.apply(row);
    }
  }

  /** As a reader's result is declared: FileScanRDD passes batches on as it does rows. */
  @SuppressWarnings("unchecked")
  private static Iterator<InternalRow> rows(Iterator<?> rowsAndPages) {
    return (Iterator<InternalRow>) rowsAndPages;
  }

  /** Spark tells files that are missing from those that are corrupt by the very exception. */
  static RuntimeException sneaked(IOException failure) {
    return LineFiles.<UncheckedIOException>thrown(failure);
  }

  @SuppressWarnings("unchecked")
  private static <T extends Throwable> T thrown(Throwable failure) throws T {
    throw (T) failure;
  }
}
