package io.pyslash.backlog;

import io.pyslash.backlog.BacklogRules.Order;
import io.pyslash.core.Json;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;

/**
 * Kafka's stream as a query reads it that is behind: the newest records first, and what was skipped is debt, which
 * micro-batches of its own pay, the oldest first; or a sample. It decides which offsets a micro-batch has; Spark's connector
 * does all else.
 */
public final class BacklogStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics, BacklogSource.Reader {
  private final MicroBatchStream kafka;
  private final BacklogRules rules;
  private final Pace pace;
  private boolean paysNext;

  BacklogStream(MicroBatchStream kafka, BacklogRules rules) {
    this.kafka = kafka;
    this.rules = rules;
    boolean isSampled = rules.order() == Order.SAMPLED;
    this.pace = isSampled ? Pace.ofSamples(rules.latencyMs()) : Pace.ofRecords(rules.latencyMs());
  }

  /** What Spark's connector has made, of a stream that may be in another order. */
  public static SparkDataStream inside(SparkDataStream stream) {
    return stream instanceof BacklogStream fresh ? fresh.kafka : stream;
  }

  /** How many partitions these offsets are of. */
  public static int partitions(Offset offset) {
    return Backlog.parse(offset.json()).head().byPartition().size();
  }

  @Override
  public Offset initialOffset() {
    return new JsonOffset(Backlog.parse(kafka.initialOffset().json()).toJson());
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new JsonOffset(Backlog.parse(json).toJson());
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return admission().getDefaultReadLimit();
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) should be called instead of this method");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    Backlog at = Backlog.parse(start.json()).settled();
    boolean isInOrder = at.debt().isEmpty() && rules.order() != Order.FRESH_FIRST;
    // The connector's own figures need it, too. There is none while no topic is there.
    Offset newest = admission().latestOffset(offset(at.head()), isInOrder ? limit : ReadLimit.allAvailable());
    return newest == null ? null : new JsonOffset(next(at, head(newest), limit).toJson());
  }

  private static Offsets head(Offset offset) {
    return Backlog.parse(offset.json()).head();
  }

  private Backlog next(Backlog at, Offsets newest, ReadLimit limit) {
    if (at.debt().isEmpty() && rules.order() == Order.ORDERED) {
      return Backlog.at(newest);
    }
    long most = Math.min(pace.most(), mostRows(limit));
    if (at.differsInPartitions(newest)) {
      return joined(at, most);
    }
    long now = System.currentTimeMillis();
    if (at.debt().isEmpty() && rules.order() == Order.SAMPLED) {
      return at.sampled(newest, pace.most());
    }
    Backlog left = at.expired(now - rules.expireMs());
    if (left.owed() < at.owed()) {
      rules.letGo(at.owed() - left.owed(), "records", now - at.oldest());
      return left;
    }
    boolean pays = !at.debt().isEmpty() && (paysNext || rules.order() != Order.FRESH_FIRST || newest.equals(at.head()));
    paysNext = !pays;
    return pays ? at.paid(most) : at.fresh(newest, most, now);
  }

  /**
   * Of other partitions than before so many records, the oldest. Where new ones begin the connector alone knows, and with
   * Trigger.AvailableNow it wants all partitions in each micro-batch.
   */
  private Backlog joined(Backlog at, long most) {
    Offsets end = head(admission().latestOffset(offset(at.head()), ReadLimit.maxRows(most)));
    return at.debt().isEmpty() ? Backlog.at(end) : at.joined(end);
  }

  private static long mostRows(ReadLimit limit) {
    Stream<ReadLimit> limits =
        limit instanceof CompositeReadLimit all ? Arrays.stream(all.getReadLimits()) : Stream.of(limit);
    return limits
        .filter(ReadMaxRows.class::isInstance)
        .mapToLong(one -> ((ReadMaxRows) one).maxRows())
        .min()
        .orElse(Long.MAX_VALUE);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    List<InputPartition> planned = new ArrayList<>();
    Backlog after = Backlog.parse(end.json());
    for (Range range : after.since(Backlog.parse(start.json()))) {
      for (InputPartition one : kafka.planInputPartitions(offset(range.from()), offset(range.to()))) {
        planned.add(rules.order() == Order.SAMPLED ? new Sampled(one, after.rate()) : one);
      }
    }
    return planned.toArray(new InputPartition[0]);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    PartitionReaderFactory readers = kafka.createReaderFactory();
    return rules.order() == Order.SAMPLED ? new SampledReaders(readers) : readers;
  }

  @Override
  public Offset reportLatestOffset() {
    return admission().reportLatestOffset();
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> consumed) {
    return kafka instanceof ReportsSourceMetrics told
        ? told.metrics(consumed.map(one -> offset(Backlog.parse(one.json()).head())))
        : Map.of();
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    ((SupportsTriggerAvailableNow) kafka).prepareForTriggerAvailableNow();
  }

  @Override
  public void commit(Offset end) {
    kafka.commit(offset(Backlog.parse(end.json()).head()));
  }

  @Override
  public void stop() {
    kafka.stop();
  }

  /** As Spark's progress calls it. */
  @Override
  public String toString() {
    return kafka.toString();
  }

  @Override
  public BacklogSource.Step step(SparkPlan scan) {
    Backlog start = Backlog.parse(((MicroBatchScanExec) scan).start().json());
    Backlog end = Backlog.parse(((MicroBatchScanExec) scan).end().json());
    long records = end.since(start).stream().filter(Range::isWhole).mapToLong(Range::records).sum();
    long shed = end.shed().stream().mapToLong(Range::records).sum();
    return new BacklogSource.Step(records, end.rate(), end.isAhead(start), end.owed(), end.read(), shed);
  }

  @Override
  public void took(long records, long ms) {
    pace.took(records, ms);
  }

  private Offset offset(Offsets offsets) {
    return kafka.deserializeOffset(Json.of(offsets.toMap()));
  }

  private SupportsAdmissionControl admission() {
    return (SupportsAdmissionControl) kafka;
  }
}
