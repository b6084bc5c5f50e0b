package io.pyslash.shim;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import org.apache.spark.sql.ForeachWriter;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.classic.DataStreamWriter;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.streaming.OutputMode;
import scala.Option;
import scala.collection.immutable.Seq;

/** What a {@link DataStreamWriter} has been told: it has no getters, and these members are private. */
public final class WriterSettings {
  private static final Field SOURCE = Member.field(DataStreamWriter.class, "source");
  private static final Field OUTPUT_MODE = Member.field(DataStreamWriter.class, "outputMode");
  private static final Field OPTIONS = Member.field(DataStreamWriter.class, "extraOptions");
  private static final Field PARTITION_COLUMNS = Member.field(DataStreamWriter.class, "partitioningColumns");
  private static final Field ROWS = Member.field(DataStreamWriter.class, "ds");
  private static final Field FOREACH = Member.field(DataStreamWriter.class, "foreachWriter");
  private static final Field FOREACH_ENCODER = Member.field(DataStreamWriter.class, "foreachWriterEncoder");
  private static final Method CLUSTERING = Member.method(DataStreamWriter.class, "normalizedClusteringCols", 0);
  private static final Method NOT_PARTITIONED = Member.method(DataStreamWriter.class, "assertNotPartitioned", 1);
  private static final Method V1_SINK = Member.method(DataStreamWriter.class, "createV1Sink", 1);

  private final DataStreamWriter<?> writer;

  public WriterSettings(DataStreamWriter<?> writer) {
    this.writer = writer;
  }

  public String source() {
    return Member.get(SOURCE, writer);
  }

  public OutputMode outputMode() {
    return Member.get(OUTPUT_MODE, writer);
  }

  public CaseInsensitiveMap<String> options() {
    return Member.get(OPTIONS, writer);
  }

  public Option<Seq<String>> partitionColumns() {
    return Member.get(PARTITION_COLUMNS, writer);
  }

  /** The clustering columns, spelled as the query spells them. */
  public Option<Seq<String>> clusteringColumns() {
    return Member.call(CLUSTERING, writer);
  }

  public Dataset<Row> rows() {
    return Member.get(ROWS, writer);
  }

  public ForeachWriter<Object> foreachWriter() {
    return Member.get(FOREACH, writer);
  }

  public ExpressionEncoder<Object> foreachEncoder() {
    return Member.get(FOREACH_ENCODER, writer);
  }

  public SparkSession session() {
    return rows().sparkSession();
  }

  public SessionState state() {
    return session().sessionState();
  }

  /** Fails with Spark's own error if the writer has partition columns, which this source does not take. */
  public void checkNotPartitioned(String source) {
    Member.call(NOT_PARTITIONED, writer, source);
  }

  public Table makeV1Sink(CaseInsensitiveMap<String> options) {
    return Member.call(V1_SINK, writer, options);
  }

  /** Throws Spark's own error; declared as a value, so that the compiler sees that the caller ends there. */
  public static RuntimeException thrown(Throwable error) {
    throw Member.thrown(error);
  }
}
