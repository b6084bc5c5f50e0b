package io.pyslash.ingest;

import io.pyslash.agent.Agent;
import io.pyslash.agent.AgentProcess;
import io.pyslash.core.Native;
import io.pyslash.core.SlashException;
import io.pyslash.records.LinePage;
import io.pyslash.shim.Watermark;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/**
 * The update task: all rows of a partition into one block of the executor's arena.
 *
 * <p>Its one result, little endian, is the statistics of event times; int64 each: the number of rows that came in columns,
 * the newest event time (milliseconds), the late rows that its block does not count; and the receipt: int64 nanoseconds of the
 * task, int32 length of the agent's descriptor, the descriptor (JSON), the head of the block.
 */
public final class UpdateTask extends AbstractFunction2<TaskContext, Iterator<InternalRow>, byte[]>
    implements Serializable {
  /** Of a result, what stands before the receipt. */
  static final int COUNTS_BYTES = EventTimes.BYTES + 3 * Long.BYTES;

  private static final long serialVersionUID = 1L;

  private final UpdateOrder order;
  private final StructType schema;
  private final boolean countsTimes;
  private final long lateMetric;

  /**
   * @param countsTimes whether it collects the event times, and not an operator of Spark's
   * @param lateMetric the id of what counts late rows before they come here; 0: they all come
   */
  public UpdateTask(UpdateOrder order, StructType schema, boolean countsTimes, long lateMetric) {
    this.order = order;
    this.schema = schema;
    this.countsTimes = countsTimes;
    this.lateMetric = lateMetric;
  }

  /**
   * Runs one task a partition; their results, in the order of the partitions.
   *
   * <p>As a job of its own: `RDD.collect()` has Spark clean two closures, by reading the byte code of its largest classes.
   */
  public List<byte[]> run(RDD<InternalRow> rows) {
    byte[][] results = new byte[rows.getNumPartitions()][];
    rows.context().runJob(rows, this, new KeepResult(results), ClassTag$.MODULE$.apply(byte[].class));
    return List.of(results);
  }

  private static final class KeepResult extends AbstractFunction2<Object, byte[], BoxedUnit> {
    private final byte[][] results;

    KeepResult(byte[][] results) {
      this.results = results;
    }

    @Override
    public BoxedUnit apply(Object partition, byte[] result) {
      results[(Integer) partition] = result;
      return BoxedUnit.UNIT;
    }
  }

  @Override
  public byte[] apply(TaskContext context, Iterator<InternalRow> rows) {
    try {
      return update(context, rows);
    } catch (SlashException failure) {
      throw failure.forDriver();
    }
  }

  private byte[] update(TaskContext context, Iterator<InternalRow> rows) {
    long began = System.nanoTime();
    Agent agent = AgentProcess.ensure(order.agent());
    EventTimes times = new EventTimes();
    long accumulator =
        Native.createAccumulator(order.planText(), order.watermarkMicros(), order.epoch(), context.partitionId());
    try {
      ColumnPage.lead(accumulator, countsTimes ? times : null);
      try (RowPage page =
          new RowPage(accumulator, Native.fields(order.planText()), Native.fixedRowBytes(order.planText()))) {
        fill(page, rows, times, context);
      }
      long inColumns = ColumnPage.end();
      stopIfKilled(context);
      byte[] head = Native.seal(accumulator, agent.arena, order.query(), order.epoch(), context.taskAttemptId());
      long[] counts = {inColumns, countsTimes ? times.newest() : Watermark.newest(context), lateBefore(context)};
      return result(times, counts, System.nanoTime() - began, agent.descriptor, head);
    } finally {
      Native.closeAccumulator(accumulator);
    }
  }

  private void fill(RowPage page, Iterator<InternalRow> rows, EventTimes times, TaskContext context) {
    UnsafeProjection toUnsafe = null;
    Iterator<?> found = rows; // rows and pages of them
    while (found.hasNext()) {
      Object row = found.next();
      if (row instanceof LinePage many) {
        if (countsTimes) {
          times.add(many);
        }
        page.add(many);
        stopIfKilled(context);
        continue;
      }
      UnsafeRow unsafe;
      if (row instanceof UnsafeRow) {
        unsafe = (UnsafeRow) row;
      } else {
        if (toUnsafe == null) {
          toUnsafe = UnsafeProjection.create(schema);
        }
        unsafe = toUnsafe.apply((InternalRow) row);
      }
      if (countsTimes) {
        times.add(unsafe);
      }
      if (page.add(unsafe)) {
        stopIfKilled(context);
      }
    }
    page.flush();
  }

  private static void stopIfKilled(TaskContext context) {
    if (context.isInterrupted()) {
      throw new TaskKilledException("the update task was killed");
    }
  }

  /** What this task has counted: the driver gets the sum of all. */
  private long lateBefore(TaskContext context) {
    return CollectionConverters.asJava(context.taskMetrics().accumulators()).stream()
        .filter(one -> one instanceof SQLMetric && one.id() == lateMetric && !one.isZero())
        .mapToLong(one -> ((SQLMetric) one).value())
        .sum();
  }

  private static byte[] result(EventTimes times, long[] counts, long nanos, byte[] descriptor, byte[] head) {
    ByteBuffer result =
        ByteBuffer.allocate(COUNTS_BYTES + Long.BYTES + Integer.BYTES + descriptor.length + head.length)
            .order(ByteOrder.LITTLE_ENDIAN);
    times.write(result);
    for (long count : counts) {
      result.putLong(count);
    }
    return result.putLong(nanos).putInt(descriptor.length).put(descriptor).put(head).array();
  }
}
