package io.pyslash.kafka;

import io.pyslash.backlog.Sampled;
import java.io.IOException;
import java.sql.Timestamp;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.LongAccumulator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The records of an offset range, as long as they come one after the other. At the first that is missing, an error, or a
 * time out, Spark's own reader takes over from there: it knows what is lost, and what to do.
 */
final class KafkaRecords implements PartitionReader<InternalRow> {
  private static final Logger LOGGER = LoggerFactory.getLogger(KafkaRecords.class);
  private static final int KEY = 0;
  private static final int VALUE = 1;
  private static final int TOPIC = 2;
  private static final int PARTITION = 3;
  private static final int OFFSET = 4;
  private static final int TIMESTAMP = 5;
  private static final int TIMESTAMP_TYPE = 6;

  private final KafkaRange range;
  private final Sampled sample; // null: all of them
  private final int topic; // the hash code of its name
  private final PartitionReaderFactory spark;
  private final boolean[] needed;
  private final Object[] values;
  private final InternalRow row; // one for all records: what reads it copies what it keeps
  private final boolean needsPlace;
  private final LongAccumulator fetched;
  private long count;
  private long next;
  private KafkaCursor cursor;
  private PartitionReader<InternalRow> rest; // Spark's, once it has taken over

  KafkaRecords(
      KafkaRange range, Sampled sample, boolean[] needed, PartitionReaderFactory spark, LongAccumulator fetched) {
    this.fetched = fetched;
    this.range = range;
    this.sample = sample;
    this.topic = range.partition().topic().hashCode();
    this.spark = spark;
    this.needed = needed;
    values = new Object[needed.length];
    row = new GenericInternalRow(values);
    values[TOPIC] = UTF8String.fromString(range.partition().topic());
    values[PARTITION] = range.partition().partition();
    if (sample != null) {
      values[values.length - 1] = sample.weight();
    }
    needsPlace = needed[OFFSET] || needed[TIMESTAMP] || needed[TIMESTAMP_TYPE];
    next = range.from();
  }

  @Override
  public boolean next() throws IOException {
    while (rest == null && next < range.until()) {
      try {
        if (advance()) {
          return true;
        }
      } catch (InterruptException killed) {
        throw killed;
      } catch (KafkaException | IllegalStateException | ArithmeticException cause) {
        leaveToSpark(cause.toString());
      }
    }
    return rest != null && rest.next();
  }

  /** Whether a record is in the row; otherwise what there was to skip was skipped. */
  private boolean advance() {
    if (cursor == null) {
      cursor = KafkaCursor.at(range.partition(), range.params(), next);
    }
    ConsumerRecord<byte[], byte[]> record = cursor.peek(range.pollMillis());
    long found = record == null ? cursor.position() : record.offset();
    if (found > next && !cursor.isInvisible(next)) {
      leaveToSpark("offsets from " + next + " to " + found + " are gone");
      return false;
    }
    if (record == null && found == next) {
      leaveToSpark("no record came within " + range.pollMillis() + " ms");
      return false;
    }
    if (record == null || found >= range.until()) {
      next = Math.min(found, range.until());
      cursor.skipTo(next);
      return false;
    }
    boolean takes = sample == null || sample.takes(topic, range.partition().partition(), found);
    if (takes) {
      fill(record);
    }
    cursor.take();
    next = found + 1;
    count++;
    return takes;
  }

  private void fill(ConsumerRecord<byte[], byte[]> record) {
    values[VALUE] = record.value();
    if (needed[KEY]) {
      values[KEY] = record.key();
    }
    if (needsPlace) {
      values[OFFSET] = record.offset();
      values[TIMESTAMP] = DateTimeUtils.fromJavaTimestamp(new Timestamp(record.timestamp()));
      values[TIMESTAMP_TYPE] = record.timestampType().id;
    }
  }

  private void leaveToSpark(String why) {
    LOGGER.info("Spark reads {} from offset {} on: {}", range.partition(), next, why);
    discard();
    InputPartition left = range.rest(next);
    rest = spark.createReader(sample == null ? left : new Sampled(left, sample.rate()));
  }

  @Override
  public InternalRow get() {
    return rest == null ? row : rest.get();
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return rest == null ? new CustomTaskMetric[0] : rest.currentMetricsValues();
  }

  @Override
  public void close() throws IOException {
    fetched.add(count);
    count = 0;
    try {
      if (cursor != null && next >= range.until()) {
        cursor.release();
        cursor = null;
      }
      discard();
    } finally {
      if (rest != null) {
        rest.close();
      }
    }
  }

  /** A task that ends early may have been interrupted anywhere, and its consumer is closed. */
  private void discard() {
    if (cursor != null) {
      cursor.close();
      cursor = null;
    }
  }
}
