package io.pyslash;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.CompressionCodecFactory;
import org.apache.hadoop.io.compress.SplittableCompressionCodec;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.json.JSONOptionsInRead;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.json.JsonFileFormat;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.LongAccumulator;
import org.apache.spark.util.SerializableConfiguration;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/** Spark's JSON source, a record a line, whose splits are read by {@link JsonLines}. */
final class JsonFiles extends JsonFileFormat {
  private static final long serialVersionUID = 1L;
  private static final String LONGEST_LINE = "mapreduce.input.linerecordreader.line.maxlength";

  private final byte[] schema;
  private final LongAccumulator leftToSpark;
  private final boolean asPages;

  /**
   * `schema`: of the columns that are read, for the native core's JsonReader; `leftToSpark` counts records; `asPages`: rows
   * may come as {@link JsonPage}s, if no filter is to be asked about them.
   */
  JsonFiles(byte[] schema, LongAccumulator leftToSpark, boolean asPages) {
    this.schema = schema;
    this.leftToSpark = leftToSpark;
    this.asPages = asPages;
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
    return super.buildReaderWithPartitionValues(
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
    Function1<PartitionedFile, Iterator<InternalRow>> bySpark =
        super.buildReader(session, dataSchema, partitionSchema, requiredSchema, filters, options, hadoop);
    if (hadoop.getInt(LONGEST_LINE, Integer.MAX_VALUE) != Integer.MAX_VALUE) {
      return bySpark;
    }
    var conf = session.sessionState().conf();
    JSONOptionsInRead json =
        new JSONOptionsInRead(options, conf.sessionLocalTimeZone(), conf.columnNameOfCorruptRecord());
    JsonLines.Records records =
        new JsonLines.Records(
            schema, requiredSchema, json, List.copyOf(CollectionConverters.asJava(filters)), leftToSpark, asPages);
    Broadcast<SerializableConfiguration> shared =
        session
            .sparkContext()
            .broadcast(new SerializableConfiguration(hadoop), ClassTag$.MODULE$.apply(SerializableConfiguration.class));
    return new Splits(records, bySpark, shared);
  }

  /** A split to its rows. */
  private static final class Splits extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>>
      implements Serializable {
    private static final long serialVersionUID = 1L;
    private final JsonLines.Records records;
    private final Function1<PartitionedFile, Iterator<InternalRow>> bySpark;
    private final Broadcast<SerializableConfiguration> hadoop;

    Splits(
        JsonLines.Records records,
        Function1<PartitionedFile, Iterator<InternalRow>> bySpark,
        Broadcast<SerializableConfiguration> hadoop) {
      this.records = records;
      this.bySpark = bySpark;
      this.hadoop = hadoop;
    }

    @Override
    public Iterator<InternalRow> apply(PartitionedFile file) {
      Configuration conf = hadoop.value().value();
      Path path = file.toPath();
      CompressionCodec codec = new CompressionCodecFactory(conf).getCodec(path);
      if (codec instanceof SplittableCompressionCodec || (codec != null && file.start() != 0)) {
        return bySpark.apply(file);
      }
      try {
        return rows(
            codec == null
                ? new JsonLines(records, TextBytes.of(path, file.start(), conf), file.start(), file.length())
                : new JsonLines(records, TextBytes.of(path, codec, conf), 0, Long.MAX_VALUE));
      } catch (IOException failure) {
        throw sneaked(failure);
      }
    }
  }

  /** As a reader's result is declared: FileScanRDD passes batches on as it does rows. */
  @SuppressWarnings("unchecked")
  private static Iterator<InternalRow> rows(Iterator<?> rowsAndPages) {
    return (Iterator<InternalRow>) rowsAndPages;
  }

  /** Spark tells files that are missing from those that are corrupt by the very exception. */
  static RuntimeException sneaked(IOException failure) {
    return JsonFiles.<UncheckedIOException>thrown(failure);
  }

  @SuppressWarnings("unchecked")
  private static <T extends Throwable> T thrown(Throwable failure) throws T {
    throw (T) failure;
  }
}
