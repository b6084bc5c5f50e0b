package io.pyslash.kafka;

import io.pyslash.backlog.Sampled;
import io.pyslash.core.SlashException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.util.LongAccumulator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Readers of the offset ranges that Spark has planned: ours, or Spark's where ours cannot be. */
final class KafkaReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;
  private static final Logger LOGGER = LoggerFactory.getLogger(KafkaReaderFactory.class);

  private final PartitionReaderFactory spark;
  private final boolean[] needed;
  private final LongAccumulator fetched;

  KafkaReaderFactory(PartitionReaderFactory spark, boolean[] needed, LongAccumulator fetched) {
    this.spark = spark;
    this.needed = needed;
    this.fetched = fetched;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    try {
      Sampled sample = partition instanceof Sampled some ? some : null;
      KafkaRange range = KafkaRange.of(sample == null ? partition : sample.kafka());
      if (range.isResolved()) {
        return new KafkaRecords(range, sample, needed, spark, fetched);
      }
    } catch (SlashException | LinkageError unknown) {
      LOGGER.info("Spark reads its Kafka records itself: {}", unknown.toString());
    }
    return spark.createReader(partition);
  }
}
