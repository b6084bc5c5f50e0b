package io.pyslash.kafka;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A consumer at an offset of a topic partition, with the records that it has fetched from there on. Tasks borrow it, and
 * leave it where the next micro-batch begins.
 */
final class KafkaCursor {
  private static final Deque<KafkaCursor> IDLE = new ArrayDeque<>(); // the one that has waited longest is the first
  private static final int MOST_IDLE = 64; // as Spark's connector keeps
  private static final long IDLE_NANOS = 300_000_000_000L; // as there
  private static final long SWEEP_MILLIS = 60_000;
  private static final Logger LOGGER = LoggerFactory.getLogger(KafkaCursor.class);
  private static Thread sweeper;

  // A poll hands over all that was fetched, and has fetched the next while these are read. Spark's 500 records make a poll for
  // each eighth of a fetch.
  private static final Map<String, Object> WHERE_UNSET =
      Map.of("max.poll.records", "100000", "max.partition.fetch.bytes", String.valueOf(4 << 20));

  private final TopicPartition partition;
  private final Map<String, Object> params;
  private final KafkaConsumer<byte[], byte[]> consumer;
  private Iterator<ConsumerRecord<byte[], byte[]>> fetched = List.<ConsumerRecord<byte[], byte[]>>of().iterator();
  private ConsumerRecord<byte[], byte[]> head; // the next of them
  private long position; // of the next record, at least
  private boolean isTrueToLog; // since the last poll it was seen that nothing before what it brought has been deleted
  private long idleSince;

  private KafkaCursor(TopicPartition partition, Map<String, Object> params) {
    this.partition = partition;
    this.params = params;
    Map<String, Object> all = new HashMap<>(WHERE_UNSET);
    all.putAll(params);
    consumer = new KafkaConsumer<>(all);
    consumer.assign(List.of(partition));
    position = -1;
  }

  /** A cursor of one's own at an offset. */
  static KafkaCursor at(TopicPartition partition, Map<String, Object> params, long offset) {
    KafkaCursor found = null;
    synchronized (IDLE) {
      for (KafkaCursor one : IDLE) {
        boolean fits = one.partition.equals(partition) && one.params.equals(params);
        if (fits && (found == null || one.position == offset)) {
          found = one;
        }
      }
      IDLE.remove(found);
    }
    KafkaCursor cursor = found == null ? new KafkaCursor(partition, params) : found;
    if (cursor.position != offset) {
      cursor.move(offset);
    }
    return cursor;
  }

  private void move(long offset) {
    consumer.seek(partition, offset);
    fetched = List.<ConsumerRecord<byte[], byte[]>>of().iterator();
    head = null;
    position = offset;
  }

  /** The next record without taking it; null if none comes in this time, or if those up to the position are invisible. */
  ConsumerRecord<byte[], byte[]> peek(long millis) {
    if (head == null && !fetched.hasNext() && consumer.position(partition) == position) {
      isTrueToLog = false;
      fetched = consumer.poll(Duration.ofMillis(millis)).records(partition).iterator();
    }
    if (head == null && fetched.hasNext()) {
      head = fetched.next();
    } else if (head == null) {
      position = Math.max(position, consumer.position(partition)); // past what is invisible
    }
    return head;
  }

  /** Take the record that was seen. */
  void take() {
    position = head.offset() + 1;
    head = null;
  }

  /** No record before this offset is wanted; the next one is not before it. */
  void skipTo(long offset) {
    position = offset;
  }

  /** The offset that the next record has, at least. */
  long position() {
    return position;
  }

  /**
   * Whether the log still begins at or before an offset that was not delivered, so that there is no record to be had: a
   * transaction's marker, what it has aborted, or what compaction has removed.
   */
  boolean isInvisible(long offset) {
    if (!isTrueToLog) {
      isTrueToLog = consumer.beginningOffsets(List.of(partition)).get(partition) <= offset;
    }
    return isTrueToLog;
  }

  /** Keep it for the next task. */
  void release() {
    KafkaCursor surplus = null;
    synchronized (IDLE) {
      idleSince = System.nanoTime();
      IDLE.addLast(this);
      if (IDLE.size() > MOST_IDLE) {
        surplus = IDLE.removeFirst();
      }
      if (sweeper == null) {
        sweeper = new Thread(KafkaCursor::sweep, "pyslash-kafka-sweeper");
        sweeper.setDaemon(true);
        sweeper.start();
      }
    }
    if (surplus != null) {
      surplus.close();
    }
  }

  /** It is of no more use. */
  void close() {
    try {
      consumer.close();
    } catch (RuntimeException error) { // of the client when it is interrupted, or of what a job has plugged into it
      LOGGER.debug("a consumer of {} was not closed in peace", partition, error);
    }
  }

  private static void sweep() {
    try {
      while (true) {
        Thread.sleep(SWEEP_MILLIS);
        KafkaCursor old;
        do {
          synchronized (IDLE) {
            old = IDLE.peekFirst();
            old = old != null && System.nanoTime() - old.idleSince > IDLE_NANOS ? IDLE.removeFirst() : null;
          }
          if (old != null) {
            old.close();
          }
        } while (old != null);
      }
    } catch (InterruptedException end) {
      Thread.currentThread().interrupt();
    }
  }
}
