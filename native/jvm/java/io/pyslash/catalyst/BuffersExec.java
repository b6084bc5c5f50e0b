package io.pyslash.catalyst;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.KnownFloatingPointNormalized;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.ExecSubqueryExpression;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.StructType;
import scala.collection.AbstractIterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/**
 * The rows of an update, and behind them, for each group of a task's, a row that has the buffers which Spark's own code has
 * made of the group's rows.
 *
 * <pre>
 *   time        key   value   buffer
 *   10:00:03    a     7       -          a row as it came; left out if no native function reads it
 *   10:00:04    a     1       -
 *   10:00:00    a     -       01 f3 ..   what both rows have become: its time is that of their pane
 * </pre>
 */
final class BuffersExec extends SparkPlan {
  private static final long serialVersionUID = 1L;

  // So many groups at a time, until it is known how large their buffers are: some have kilobytes on the heap.
  private static final int FIRST_GROUPS = 8192;
  // Then as many as take this on the heap, about, and no fewer.
  private static final long MOST_BYTES = 64 << 20;
  // What a group takes there beside its buffers, and how much more these take there than written.
  private static final int GROUP_BYTES = 400;
  private static final int BYTES_ON_HEAP = 8;
  // Or so many rows: a buffer may hold all of them.
  private static final int MOST_ROWS = 1 << 20;

  /**
   * What the output's columns are, and what they are made of.
   *
   * @param windows in each of which a row stands by itself; null: in panes
   * @param folds buffers have a head, as {@link FoldedBuffers} reads it
   */
  record Layout(
      List<Column> columns, List<BufferOf> functions, Panes panes, Windows windows, boolean keepsRows, boolean folds)
      implements Serializable {}

  /** A column of the output: one of the input's, which may be a key, or, behind them, the buffer of a function. */
  record Column(Attribute attribute, int place, boolean isKey, boolean isBuffer) implements Serializable {}

  /** Panes of event time. */
  record Panes(long micros, long offset) implements Serializable {
    /** Each of one moment; rows without a time have one, too. */
    static final Panes OF_MOMENTS = new Panes(1, 0);

    /** In the place of the start of the pane that rows without a time have. */
    static final long TIMELESS = Long.MIN_VALUE;

    boolean takesTimeless() {
      return equals(OF_MOMENTS);
    }

    long start(long time) {
      return time - Math.floorMod(time - offset, micros);
    }
  }

  /**
   * Windows that overlap. A row of a window stands at the beginning of its last slide, so that windows by themselves are
   * tumbling ones of as much time, which end when they do.
   */
  record Windows(long size, long slide, long offset) implements Serializable {
    /** Where a row of this time stands in its last window; in the one before, a slide earlier. */
    long last(long time) {
      return time - Math.floorMod(time - offset, slide) + size - slide;
    }

    /** Whether a row of this time has a window in which it stands there. */
    boolean holds(long place, long time) {
      return place + slide > time;
    }
  }

  private final SparkPlan child;
  private final Layout layout;
  private final Seq<SparkPlan> children;

  BuffersExec(SparkPlan child, Layout layout) {
    this.child = child;
    this.layout = layout;
    children = CollectionConverters.asScala(List.of(child)).toSeq();
  }

  @Override
  public RDD<InternalRow> doExecute() {
    layout.functions.forEach(BuffersExec::waitForSubqueries);
    return child
        .execute()
        .mapPartitionsInternal(
            new OfPartition(layout, List.copyOf(CollectionConverters.asJava(child.output()))),
            true,
            ClassTag$.MODULE$.apply(InternalRow.class));
  }

  /** Spark waits for those in the expressions that it sees in a plan. */
  private static void waitForSubqueries(BufferOf function) {
    function.foreach(
        part -> {
          if (part instanceof ExecSubqueryExpression subquery) {
            subquery.plan().prepare();
            subquery.updateResult();
          }
          return null;
        });
  }

  private static final class OfPartition
      extends AbstractFunction1<scala.collection.Iterator<InternalRow>, scala.collection.Iterator<InternalRow>>
      implements Serializable {
    private static final long serialVersionUID = 1L;

    private final Layout layout;
    private final List<Attribute> input;

    OfPartition(Layout layout, List<Attribute> input) {
      this.layout = layout;
      this.input = input;
    }

    @Override
    public scala.collection.Iterator<InternalRow> apply(scala.collection.Iterator<InternalRow> rows) {
      return new Rows(layout.windows == null ? rows : new RowsOfWindows(rows, layout.windows), layout, input);
    }
  }

  /** Each row once for each of its windows, with the place where it stands there in place of its time. */
  private static final class RowsOfWindows extends AbstractIterator<InternalRow> {
    private final scala.collection.Iterator<InternalRow> rows;
    private final Windows windows;
    private InternalRow row;
    private long time;
    private long place;

    RowsOfWindows(scala.collection.Iterator<InternalRow> rows, Windows windows) {
      this.rows = rows;
      this.windows = windows;
    }

    @Override
    public boolean hasNext() {
      return row != null && windows.holds(place, time) || rows.hasNext();
    }

    @Override
    public InternalRow next() {
      if (row == null || !windows.holds(place, time)) {
        row = rows.next();
        if (row.isNullAt(0)) {
          InternalRow ofNoWindow = row;
          row = null;
          return ofNoWindow;
        }
        time = row.getLong(0);
        place = windows.last(time);
      }
      row.setLong(0, place);
      place -= windows.slide;
      return row;
    }
  }

  private record Group(long pane, UnsafeRow key) {}

  /** A function with the rows that it leaves out. */
  private record Updated(SparkFunction function, Expression filter) {
    void take(InternalRow buffer, InternalRow row) {
      if (filter == null || Boolean.TRUE.equals(filter.eval(row))) {
        function.update(buffer, row);
      }
    }
  }

  private static final class Rows extends AbstractIterator<InternalRow> {
    private final scala.collection.Iterator<InternalRow> rows;
    private final Layout layout;
    private final Updated[] functions;
    private final List<DataType> keyTypes = new ArrayList<>();
    private final UnsafeProjection keyOf;
    private final UnsafeProjection passed;
    private final UnsafeProjection ofGroup;
    private Map<Group, InternalRow[]> groups = new LinkedHashMap<>();
    private Iterator<Map.Entry<Group, InternalRow[]>> finished = Map.<Group, InternalRow[]>of().entrySet().iterator();
    private int taken; // rows in `groups`
    private long mostGroups = FIRST_GROUPS; // in `groups`
    private long written; // bytes of buffers, and
    private long of; // their groups

    Rows(scala.collection.Iterator<InternalRow> rows, Layout layout, List<Attribute> input) {
      this.rows = rows;
      this.layout = layout;
      functions = new Updated[layout.functions.size()];
      for (int i = 0; i < functions.length; i++) {
        BufferOf one = layout.functions.get(i);
        Expression filter = one.filter() == null ? null : SparkFunction.bound(one.filter(), input);
        functions[i] = new Updated(SparkFunction.of(one.function(), input), filter);
      }
      List<Expression> keys = new ArrayList<>();
      List<Expression> all = new ArrayList<>();
      StructType schema = new StructType();
      for (Column column : layout.columns) {
        DataType type = column.attribute.dataType();
        Expression value = new BoundReference(column.place, type, true);
        if (column.isKey) {
          boolean isFloating = type instanceof DoubleType || type instanceof FloatType;
          keys.add(isFloating ? new KnownFloatingPointNormalized(new NormalizeNaNAndZero(value)) : value);
          keyTypes.add(type);
        }
        all.add(column.isBuffer ? Literal$.MODULE$.create(null, type) : value);
        schema = schema.add(column.attribute.name(), type, true);
      }
      keyOf = UnsafeProjection.create(CollectionConverters.asScala(keys).toSeq());
      passed = UnsafeProjection.create(CollectionConverters.asScala(all).toSeq());
      ofGroup = UnsafeProjection.create(schema);
    }

    @Override
    public boolean hasNext() {
      while (!finished.hasNext()) {
        if (rows.hasNext()) {
          if (layout.keepsRows) {
            return true;
          }
          take(rows.next());
        } else if (groups.isEmpty()) {
          return false;
        } else {
          finish();
        }
      }
      return true;
    }

    @Override
    public InternalRow next() {
      if (!hasNext()) {
        throw new java.util.NoSuchElementException();
      }
      if (finished.hasNext()) {
        return row(finished.next());
      }
      InternalRow row = rows.next();
      take(row);
      return passed.apply(row);
    }

    private void take(InternalRow row) {
      if (row.isNullAt(0) && !layout.panes.takesTimeless()) {
        return; // of no window
      }
      UnsafeRow key = keyOf.apply(row);
      Group group = new Group(row.isNullAt(0) ? Panes.TIMELESS : layout.panes.start(row.getLong(0)), key);
      InternalRow[] buffers = groups.get(group);
      if (buffers == null) {
        if (groups.isEmpty()) {
          mostGroups = mostGroups();
        }
        buffers = new InternalRow[functions.length];
        for (int i = 0; i < buffers.length; i++) {
          buffers[i] = functions[i].function.empty();
        }
        groups.put(new Group(group.pane, key.copy()), buffers);
      }
      for (int i = 0; i < buffers.length; i++) {
        functions[i].take(buffers[i], row);
      }
      if (++taken == MOST_ROWS || groups.size() == mostGroups) {
        finish();
      }
    }

    private long mostGroups() {
      long bytes = of == 0 ? Long.MAX_VALUE : GROUP_BYTES + BYTES_ON_HEAP * written / of;
      return Math.max(FIRST_GROUPS, MOST_BYTES / bytes);
    }

    private void finish() {
      finished = groups.entrySet().iterator();
      groups = new LinkedHashMap<>();
      taken = 0;
    }

    private InternalRow row(Map.Entry<Group, InternalRow[]> group) {
      Object[] values = new Object[layout.columns.size()];
      values[0] = group.getKey().pane == Panes.TIMELESS ? null : group.getKey().pane;
      int key = 0;
      of++;
      for (int i = 1; i < values.length; i++) {
        Column column = layout.columns.get(i);
        if (column.isKey) {
          values[i] = group.getKey().key.get(key, keyTypes.get(key));
          key++;
        } else if (column.isBuffer) {
          byte[] buffer = functions[column.place].function.bytes(group.getValue()[column.place]);
          written += buffer.length;
          values[i] = layout.folds ? FoldedBuffers.ofRows(buffer) : buffer;
        }
      }
      return ofGroup.apply(new GenericInternalRow(values));
    }
  }

  @Override
  public Seq<Attribute> output() {
    return CollectionConverters.asScala(layout.columns.stream().map(Column::attribute).toList()).toSeq();
  }

  @Override
  public Partitioning outputPartitioning() {
    return child.outputPartitioning();
  }

  @Override
  public Seq<SparkPlan> children() {
    return children;
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new BuffersExec(children.head(), layout);
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int index) {
    return index == 0 ? child : layout;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof BuffersExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof BuffersExec exec && exec.child.equals(child) && exec.layout.equals(layout);
  }

  @Override
  public int hashCode() {
    return child.hashCode();
  }
}
