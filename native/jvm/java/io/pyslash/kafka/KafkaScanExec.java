package io.pyslash.kafka;

import io.pyslash.backlog.BacklogStream;
import io.pyslash.core.Fields;
import io.pyslash.records.ScanInPlaceExec;
import io.pyslash.shim.KafkaConnector;
import java.util.Set;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.util.LongAccumulator;
import scala.Function1;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/**
 * Spark's scan of Kafka topics, its partitions read by {@link KafkaRecords}: Spark's own choice of offsets, tasks and
 * executors, and its metrics. Of the columns that nobody needs, rows have nothing.
 */
public final class KafkaScanExec extends ScanInPlaceExec {
  private static final long serialVersionUID = 1L;
  // Of the columns a row of the source always has; headers are the eighth.
  private static final int COLUMNS = 7;
  public static final String HEADERS = "headers";
  public static final String TOKENS = "spark.kafka.clusters.";

  private final MicroBatchScanExec spark;
  private final boolean[] needed;
  private final LongAccumulator fetched;

  /** Whether rows of this scan can be read without Spark's reader: its columns are known, and Spark makes no token. */
  public static boolean canRead(MicroBatchScanExec scan, Set<Long> needed) {
    if (!KafkaConnector.reads(BacklogStream.inside(scan.stream()))) {
      return false;
    }
    boolean wantsHeaders =
        CollectionConverters.asJava(scan.output()).stream()
            .anyMatch(column -> column.name().equals(HEADERS) && needed.contains(column.exprId().id()));
    return !wantsHeaders
        && scan.output().size() >= COLUMNS
        && scan.session().sparkContext().conf().getAllWithPrefix(TOKENS).length == 0;
  }

  /** @param fetched counts the records that have not come through Spark's reader */
  public KafkaScanExec(MicroBatchScanExec spark, Set<Long> needed, LongAccumulator fetched) {
    super(spark);
    this.spark = spark;
    this.fetched = fetched;
    this.needed = new boolean[spark.output().size()];
    for (int i = 0; i < this.needed.length; i++) {
      this.needed[i] = needed.contains(spark.output().apply(i).exprId().id());
    }
  }

  @Override
  public RDD<InternalRow> doExecute() {
    Object[] fields = Fields.of(spark, spark.stream(), new Stream(spark, needed, fetched));
    RDD<InternalRow> read = ((MicroBatchScanExec) spark.makeCopy(fields)).inputRDD();
    Function1<Iterator<InternalRow>, Iterator<InternalRow>> counted = new Counted(rows());
    return read.mapPartitionsInternal(counted, true, ClassTag$.MODULE$.apply(InternalRow.class));
  }

  /** What Spark has planned to read, with our readers. */
  private record Stream(MicroBatchScanExec spark, boolean[] needed, LongAccumulator fetched)
      implements MicroBatchStream {
    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      return CollectionConverters.asJava(spark.inputPartitions()).toArray(new InputPartition[0]);
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return new KafkaReaderFactory(spark.readerFactory(), needed, fetched);
    }

    @Override
    public Offset latestOffset() {
      return spark.stream().latestOffset();
    }

    @Override
    public Offset initialOffset() {
      return spark.stream().initialOffset();
    }

    @Override
    public Offset deserializeOffset(String json) {
      return spark.stream().deserializeOffset(json);
    }

    @Override
    public void commit(Offset end) {
      throw new UnsupportedOperationException("the stream is Spark's to commit");
    }

    @Override
    public void stop() {
      throw new UnsupportedOperationException("the stream is Spark's to stop");
    }
  }

  /** Tells Spark's scan how many rows it has read. */
  private static final class Counted extends AbstractFunction1<Iterator<InternalRow>, Iterator<InternalRow>>
      implements java.io.Serializable {
    private static final long serialVersionUID = 1L;
    private final SQLMetric count;

    Counted(SQLMetric count) {
      this.count = count;
    }

    @Override
    public Iterator<InternalRow> apply(Iterator<InternalRow> rows) {
      return new scala.collection.AbstractIterator<>() {
        @Override
        public boolean hasNext() {
          return rows.hasNext();
        }

        @Override
        public InternalRow next() {
          count.add(1);
          return rows.next();
        }
      };
    }
  }

  @Override
  public int productArity() {
    return 3;
  }

  @Override
  public Object productElement(int index) {
    return new Object[] {spark, needed, fetched}[index];
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof KafkaScanExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof KafkaScanExec exec && exec.spark.equals(spark);
  }

  @Override
  public int hashCode() {
    return spark.hashCode();
  }
}
