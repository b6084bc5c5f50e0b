package io.pyslash.backlog;

import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** The connector's readers; of their rows those that a sample takes, each with its weight as one more column. */
record SampledReaders(PartitionReaderFactory kafka) implements PartitionReaderFactory {
  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    Sampled sample = (Sampled) partition;
    return new Reader(kafka.createReader(sample.kafka()), sample);
  }

  /** One reader. */
  private static final class Reader implements PartitionReader<InternalRow> {
    private static final int TOPIC = 2;
    private static final int PARTITION = 3;
    private static final int OFFSET = 4;

    private final PartitionReader<InternalRow> kafka;
    private final Sampled sample;
    private final InternalRow weight;
    private final JoinedRow row = new JoinedRow();

    Reader(PartitionReader<InternalRow> kafka, Sampled sample) {
      this.kafka = kafka;
      this.sample = sample;
      this.weight = new GenericInternalRow(new Object[] {sample.weight()});
    }

    @Override
    public boolean next() throws IOException {
      while (kafka.next()) {
        InternalRow found = kafka.get();
        int topic = found.getUTF8String(TOPIC).toString().hashCode();
        if (sample.takes(topic, found.getInt(PARTITION), found.getLong(OFFSET))) {
          row.apply(found, weight);
          return true;
        }
      }
      return false;
    }

    @Override
    public InternalRow get() {
      return row;
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return kafka.currentMetricsValues();
    }

    @Override
    public void close() throws IOException {
      kafka.close();
    }
  }
}
