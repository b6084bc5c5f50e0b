package io.pyslash.join;

import io.pyslash.core.AddressSet;
import io.pyslash.core.Native;
import io.pyslash.core.RowShape;
import io.pyslash.merge.GatheredBlocks;
import io.pyslash.merge.MergeCounts;
import io.pyslash.merge.MergeSpec;
import io.pyslash.merge.MergedRows;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.Predicate;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowJoiner;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.collection.AbstractIterator;

/**
 * The rows that a join gives in a micro-batch, of keys in a range of hash prefixes. Native code finds the pairs of rows, in
 * the phases of `pyslash/join.h`; Spark's own code says which of them join.
 */
final class JoinReader extends AbstractIterator<InternalRow> implements AutoCloseable {
  private static final long PAIRS = 4096;
  private static final int PAIR_BYTES = 16;
  private static final long BEFORE = -1; // earlier than any micro-batch

  private enum Phase {
    REMEMBERED,
    LEFT_NEW,
    RIGHT_NEW,
    ALONE,
    LEFT_EVICTED,
    RIGHT_EVICTED
  }

  private static final Phase[] PHASES = Phase.values();

  private final JoinRules rules;
  private final long epoch;
  private final MergeCounts counts;
  private final MergeCounts.Clock clock;
  private final BasePredicate condition; // null: all pairs join
  private final JoinedRow both = new JoinedRow();
  private final UnsafeRow left;
  private final UnsafeRow right;
  private final UnsafeRow noLeft;
  private final UnsafeRow noRight;
  private final UnsafeRowJoiner joiner;
  private final UnsafeRow copy; // of a left row that a semi join gives
  private AddressSet given = new AddressSet(); // the rows that a semi join has given
  private long reader;
  private Phase phase;
  private long pair; // address of the next one
  private long end;
  private UnsafeRow next;

  JoinReader(JoinRules rules, MergeSpec order, boolean keeps, MergedRows.Prefixes prefixes, MergeCounts counts) {
    this.rules = rules;
    this.counts = counts;
    epoch = order.home.epoch();
    StructType leftSchema = rules.leftSchema();
    StructType rightSchema = rules.rightSchema();
    condition = rules.condition() == null ? null : Predicate.create(rules.condition(), rules.both());
    if (condition != null) {
      condition.initialize(0);
    }
    left = new UnsafeRow(leftSchema.length());
    right = new UnsafeRow(rightSchema.length());
    noLeft = nulls(leftSchema);
    noRight = nulls(rightSchema);
    joiner = GenerateUnsafeRowJoiner.create(leftSchema, rightSchema);
    copy = UnsafeRow.createFromByteArray(0, leftSchema.length());
    clock = new MergeCounts.Clock(counts);
    reader = clock.time(() -> open(order, keeps, prefixes));
  }

  private static UnsafeRow nulls(StructType schema) {
    StructType nullable = new StructType();
    for (int i = 0; i < schema.length(); i++) {
      nullable = nullable.add("c" + i, schema.apply(i).dataType(), true);
    }
    return UnsafeProjection.create(nullable).apply(new GenericInternalRow(schema.length())).copy();
  }

  private long open(MergeSpec order, boolean keeps, MergedRows.Prefixes prefixes) {
    long[] read = new long[1];
    MergeSpec.Home home = order.home;
    try (GatheredBlocks blocks = new GatheredBlocks(order, prefixes)) {
      long opened =
          Native.openJoin(
              order.planText,
              home.query(),
              prefixes.lo(),
              prefixes.hi(),
              home.before(),
              home.version(),
              home.epoch(),
              home.evictedMicros(),
              home.closingMicros(),
              rules.type().keepsLeft(),
              rules.type().keepsRight(),
              rules.type().remembers(),
              RowShape.text(rules.leftSchema()),
              RowShape.text(rules.rightSchema()),
              keeps,
              blocks,
              read);
      blocks.count(counts, Math.max(0, read[0] - blocks.brought()));
      return opened;
    }
  }

  @Override
  public boolean hasNext() {
    while (next == null && reader != 0) {
      if (pair == end && !readPairs()) {
        close();
        break;
      }
      next = joined(address(pair), address(pair + Long.BYTES));
      pair += PAIR_BYTES;
    }
    return next != null;
  }

  @Override
  public InternalRow next() {
    hasNext();
    UnsafeRow row = next;
    next = null;
    counts.gave(1);
    return row;
  }

  private boolean readPairs() {
    if (TaskContext.get().isInterrupted()) {
      throw new TaskKilledException("the task that joins was killed");
    }
    long[] numbers = clock.time(() -> Native.nextPairs(reader, PAIRS));
    if (numbers == null) {
      return false;
    }
    phase = PHASES[(int) numbers[0]];
    pair = numbers[2];
    end = pair + numbers[1] * PAIR_BYTES;
    return true;
  }

  private static long address(long at) {
    return Platform.getLong(null, at);
  }

  /** What a pair of rows gives; null: nothing. */
  private UnsafeRow joined(long leftAddress, long rightAddress) {
    switch (phase) {
      case REMEMBERED:
        // Spark has looked for no other match of a row that a semi join has given.
        boolean isKnown = rules.type() == JoinRules.Type.LEFT_SEMI && KeptRow.matchedIn(leftAddress) == BEFORE;
        if (!isKnown && matches(leftAddress, rightAddress)) {
          KeptRow.match(leftAddress, BEFORE);
          KeptRow.match(rightAddress, BEFORE);
        }
        return null;
      case ALONE, LEFT_EVICTED, RIGHT_EVICTED:
        return alone(leftAddress, rightAddress);
      default:
        return rules.type() == JoinRules.Type.LEFT_SEMI
            ? semi(leftAddress, rightAddress)
            : paired(leftAddress, rightAddress);
    }
  }

  private boolean matches(long leftAddress, long rightAddress) {
    KeptRow.point(left, leftAddress);
    KeptRow.point(right, rightAddress);
    return condition == null || condition.eval(both.apply(left, right));
  }

  private UnsafeRow paired(long leftAddress, long rightAddress) {
    if (!matches(leftAddress, rightAddress)) {
      return null;
    }
    if (rules.type().remembers()) {
      KeptRow.match(leftAddress, epoch);
      KeptRow.match(rightAddress, epoch);
    }
    return joiner.join(left, right);
  }

  /** A row that joins is given once: the state remembers of which ones it was in an earlier micro-batch. */
  private UnsafeRow semi(long leftAddress, long rightAddress) {
    boolean isGiven = KeptRow.matchedIn(leftAddress) < epoch || given.contains(leftAddress);
    if (isGiven || !matches(leftAddress, rightAddress)) {
      return null;
    }
    KeptRow.match(leftAddress, epoch);
    given.add(leftAddress);
    copy.copyFrom(left);
    return copy;
  }

  private UnsafeRow alone(long leftAddress, long rightAddress) {
    if (rightAddress == 0) {
      KeptRow.point(left, leftAddress);
      return joiner.join(left, noRight);
    }
    KeptRow.point(right, rightAddress);
    return joiner.join(noLeft, right);
  }

  @Override
  public void close() {
    if (reader != 0) {
      Native.closeJoin(reader);
      reader = 0;
      given = null; // the task keeps this reader
      clock.stop();
    }
  }
}
