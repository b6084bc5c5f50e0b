package io.pyslash.migrate;

import java.io.IOException;
import java.io.Serializable;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.UUID;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.encoders.AgnosticEncoder;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.catalyst.encoders.RowEncoder;
import org.apache.spark.sql.catalyst.plans.logical.TimeModes;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.statefulprocessor.ImplicitGroupingKeyTracker;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.statefulprocessor.StatefulProcessorHandleImpl;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.statefulprocessor.StatefulProcessorHandleState;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.streaming.ListState;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.BinaryType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Function0;
import scala.Option;

/**
 * Writes a processor's variables and timers into Spark's own state stores, by the handle that Spark gives to processors: a
 * variable is in Spark's column families then, with the indexes of what expires and when.
 *
 * <p>A row is of one entry: the key; the place of its variable, null for a timer; when it expires, or the timer fires
 * (milliseconds); then for each variable the value, and for a map also the user's key. The rows of partition n are those of
 * store n.
 */
public final class ProcessorExport implements Serializable {
  private static final long serialVersionUID = 1;
  private static final StructType NO_VALUE = new StructType().add("value", BinaryType$.MODULE$);
  private static final int KEY = 0;
  private static final int VARIABLE = 1;
  private static final int EXPIRY = 2;
  private static final int FIRST_VALUE = 3;
  private static final long A_LIFE_MS = 1;

  private final StateStores stores;
  private final ExpressionEncoder<Object> key;
  private final String timeMode;
  private final List<Variable> variables = new ArrayList<>();
  private int columns = FIRST_VALUE;

  /** {@code timeMode}: as Spark's metadata has it. */
  @SuppressWarnings("unchecked")
  public ProcessorExport(StateStores stores, StructType key, String timeMode) {
    this.stores = stores;
    this.key = (ExpressionEncoder<Object>) (ExpressionEncoder<?>) ExpressionEncoder.apply(encoder(key));
    this.timeMode = timeMode;
  }

  /**
   * The next variable.
   *
   * @param kind value, list or map
   * @param value schema (JSON) of its values; {@code userKey}: of a map's keys, empty if it is none
   */
  public void add(String name, String kind, String value, String userKey, boolean expires) {
    Encoder<Row> ofKeys = userKey.isEmpty() ? null : encoder((StructType) DataType.fromJson(userKey));
    Encoder<Row> ofValues = encoder((StructType) DataType.fromJson(value));
    variables.add(new Variable(name, kind, ofValues, ofKeys, expires, columns));
    columns += ofKeys == null ? 1 : 2;
  }

  /** Of rows as the session's settings have them: they say which of Java's classes times are. */
  private AgnosticEncoder<Row> encoder(StructType schema) {
    return SQLConf.withExistingConf(stores.settings, () -> RowEncoder.encoderFor(schema));
  }

  /** Entries that were written; every partition is, if only without any. */
  public long write(Dataset<Row> rows) {
    long sum = 0;
    for (long written : rows.toJavaRDD().mapPartitionsWithIndex(this::written, true).collect()) {
      sum += written;
    }
    return sum;
  }

  private Iterator<Long> written(int partition, Iterator<Row> rows) throws IOException {
    return List.of(stores.write(partition, key.schema(), NO_VALUE, true, store -> put(store, rows))).iterator();
  }

  private long put(StateStore store, Iterator<Row> rows) {
    Clock clock = new Clock();
    var handle = new StatefulProcessorHandleImpl(store, UUID.randomUUID(), key, timeMode(), false,
        Option.apply(0L), Option.empty(), scala.collection.immutable.Map$.MODULE$.empty(), Option.apply(clock));
    List<Puts> puts = new ArrayList<>();
    for (Variable variable : variables) {
      puts.add(variable.in(handle));
    }
    handle.setHandleState(StatefulProcessorHandleState.INITIALIZED());
    try {
      return put(handle, puts, clock, rows);
    } finally {
      ImplicitGroupingKeyTracker.removeImplicitKey();
    }
  }

  private static long put(StatefulProcessorHandleImpl handle, List<Puts> puts, Clock clock, Iterator<Row> rows) {
    long count = 0;
    while (rows.hasNext()) {
      Row row = rows.next();
      ImplicitGroupingKeyTracker.setImplicitKey(row.getStruct(KEY));
      if (row.isNullAt(VARIABLE)) {
        handle.registerTimer(row.getLong(EXPIRY));
      } else {
        clock.nowMs = row.isNullAt(EXPIRY) ? 0 : row.getLong(EXPIRY) - A_LIFE_MS;
        puts.get(row.getInt(VARIABLE)).put(row);
      }
      count++;
    }
    return count;
  }

  private TimeMode timeMode() {
    return timeMode.equals(TimeMode.None().toString()) ? TimeMode.None() : TimeModes.apply(timeMode);
  }

  /** What Spark takes for the time, by which it sets when a value expires. */
  private static final class Clock implements Function0<Object> {
    private long nowMs;

    @Override
    public Object apply() {
      return nowMs;
    }
  }

  /** Puts the entry that a row has into a variable. */
  private interface Puts {
    void put(Row row);
  }

  private record Variable(String name, String kind, Encoder<Row> value, Encoder<Row> userKey, boolean expires, int at)
      implements Serializable {
    Puts in(StatefulProcessorHandleImpl handle) {
      TTLConfig life = expires ? new TTLConfig(Duration.ofMillis(A_LIFE_MS)) : TTLConfig.NONE();
      switch (kind) {
        case "value" -> {
          ValueState<Row> state = handle.getValueState(name, value, life);
          return row -> state.update(row.getStruct(at));
        }
        case "list" -> {
          ListState<Row> state = handle.getListState(name, value, life);
          return row -> state.appendValue(row.getStruct(at));
        }
        case "map" -> {
          MapState<Row, Row> state = handle.getMapState(name, userKey, value, life);
          return row -> state.updateValue(row.getStruct(at + 1), row.getStruct(at));
        }
        default -> throw new IllegalArgumentException(kind);
      }
    }
  }
}
