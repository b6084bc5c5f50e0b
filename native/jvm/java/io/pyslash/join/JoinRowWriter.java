package io.pyslash.join;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Predicate;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** Rows of one side of a join, each with all that native code has to know of it; late ones are left out. */
final class JoinRowWriter extends AbstractIterator<InternalRow> {
  private static final long NEVER = Long.MAX_VALUE;
  private static final long PASSING = Long.MIN_VALUE; // KeptRow::passing
  // The last day of the year 9999: Plan::timeless. Blocks of rows that are always needed are there.
  private static final long END_OF_TIME = 253_402_214_400_000_000L;
  // Spark rounds the watermarks of both sides to milliseconds, each by itself.
  private static final long ROUNDING = 1_000_000L;

  private static final int INITIAL_BYTES = 256;
  private static final int ALONE = 2; // behind both sides: rows that join with nothing

  /**
   * How a side's rows are written.
   *
   * @param side the side
   * @param isRight which one it is
   * @param isKeptAlone whether rows that join with nothing are of the join's result
   * @param other how long a row may tell of rows of the other side that they have joined: whether it may at all, and what
   *     evicts those
   * @param epoch the micro-batch
   * @param evicted until when (microseconds) rows had been evicted before it
   * @param passing rows that expire by then are found by kept rows alone, not by new ones of the other side
   */
  record Rules(
      JoinSide side, boolean isRight, boolean isKeptAlone, Other other, long epoch, long evicted, long passing)
      implements Serializable {}

  /** The other side: whether it counts that its rows have joined, whether they expire, and their shift. */
  record Other(boolean remembers, boolean expires, long shift) implements Serializable {}

  private final Rules rules;
  private final SQLMetric late;
  private final Iterator<InternalRow> rows;
  private final UnsafeProjection toUnsafe;
  private final UnsafeProjection keyOf;
  private final BasePredicate own; // null: all rows may join
  private final UnsafeRowWriter writer = new UnsafeRowWriter(JoinInput.SCHEMA.length(), INITIAL_BYTES);
  private UnsafeRow next;

  JoinRowWriter(Rules rules, SQLMetric late, Iterator<InternalRow> rows) {
    this.rules = rules;
    this.late = late;
    this.rows = rows;
    JoinSide side = rules.side();
    toUnsafe = UnsafeProjection.create(DataTypeUtils.fromAttributes(side.columns()));
    keyOf = UnsafeProjection.create(side.keys(), side.columns());
    own = side.own() == null ? null : Predicate.create(side.own(), side.columns());
    if (own != null) {
      own.initialize(0);
    }
  }

  @Override
  public boolean hasNext() {
    while (next == null && rows.hasNext()) {
      next = written(rows.next());
    }
    return next != null;
  }

  @Override
  public InternalRow next() {
    hasNext();
    UnsafeRow given = next;
    next = null;
    return given;
  }

  /** Null: the row is neither of the join's result nor of its state. */
  private UnsafeRow written(InternalRow any) {
    JoinSide side = rules.side();
    UnsafeRow row = any instanceof UnsafeRow unsafe ? unsafe : toUnsafe.apply(any);
    if (side.late() != null && !side.late().isNull(row) && side.late().of(row) <= side.lateUntil()) {
      late.add(1);
      return null;
    }
    boolean joins = own == null || own.eval(row);
    if (!joins && !rules.isKeptAlone()) {
      return null;
    }
    UnsafeRow key = keyOf.apply(row);
    long expires = joins ? expires(row, key) : rules.evicted();
    writer.reset();
    writer.write(0, pane(joins ? needed(expires) : expires));
    writer.write(1, (byte) ((rules.isRight() ? 1 : 0) + (joins ? 0 : ALONE)));
    writer.write(2, expires <= rules.passing() ? PASSING : expires);
    writer.write(3, rules.epoch());
    writer.write(4, rules.evicted());
    writer.write(5, bytes(key));
    writer.write(6, bytes(row));
    return writer.getRow();
  }

  private static UTF8String bytes(UnsafeRow row) {
    return UTF8String.fromAddress(row.getBaseObject(), row.getBaseOffset(), row.getSizeInBytes());
  }

  /** The watermark by which Spark evicts the row. */
  private long expires(UnsafeRow row, UnsafeRow key) {
    JoinSide side = rules.side();
    InternalRow of = side.byKey() ? key : row;
    return !side.expires() || side.expiring().isNull(of) ? NEVER : minus(side.expiring().of(of), side.shift());
  }

  /**
   * The watermark from which on nobody needs the row: it is evicted, and so are all rows of the other side that it may have
   * joined. Where those that expire at w+a join rows of ours that expire at w+b, and none of them earlier ones, a row of ours
   * has joined none that is there when the watermark has moved by a more.
   */
  private long needed(long expires) {
    Other other = rules.other();
    if (!other.remembers() || expires == NEVER) {
      return expires;
    }
    return other.expires() ? Math.max(expires, minus(expires, other.shift() - ROUNDING)) : NEVER;
  }

  /** The time that a block's pane is of: never one that is released while the epoch may be run again. */
  private long pane(long needed) {
    long first = Math.max(rules.evicted(), -END_OF_TIME) + 1;
    return Math.min(Math.max(needed, first), END_OF_TIME);
  }

  private static long minus(long time, long shift) {
    long moved = time - shift;
    boolean overflows = ((time ^ shift) & (time ^ moved)) < 0;
    return overflows ? (time < 0 ? Long.MIN_VALUE : NEVER - 1) : moved;
  }
}
