package io.pyslash.merge;

import io.pyslash.core.Native;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** The merge task: maps the arenas, has native code make rows of them, and shows Spark the columns where they are. */
final class MergeReader implements PartitionReader<ColumnarBatch> {
  // So many rows of a few columns stay in a CPU's second-level cache until Spark has read them.
  private static final long BATCH_ROWS = 8192;
  private static final int NUMBERS_A_COLUMN = 4;

  /** Travels with the task. */
  static final class Factory implements PartitionReaderFactory {
    private static final long serialVersionUID = 1L;

    private final MergeSpec order;
    private final StructType schema;
    private final boolean keeps;
    private final MergeCounts counts;

    Factory(MergeSpec order, StructType schema, boolean keeps, MergeCounts counts) {
      this.order = order;
      this.schema = schema;
      this.keeps = keeps;
      this.counts = counts;
    }

    @Override
    public boolean supportColumnarReads(InputPartition partition) {
      return true;
    }

    @Override
    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
      return new MergeReader(order, schema, (MergedRows.Prefixes) partition, keeps, counts);
    }

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      throw new UnsupportedOperationException("merged rows are columns");
    }
  }

  private final NativeRows rows;
  private final NativeColumn[] columns;
  private final MergeCounts counts;
  private final MergeCounts.Clock clock;
  private final ColumnarBatch batch;

  private MergeReader(
      MergeSpec order, StructType schema, MergedRows.Prefixes prefixes, boolean keeps, MergeCounts counts) {
    this.counts = counts;
    columns = new NativeColumn[schema.length()];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = new NativeColumn(schema.fields()[i].dataType());
    }
    batch = new ColumnarBatch(columns);
    clock = new MergeCounts.Clock(counts);
    rows =
        clock.time(
            () ->
                order.home == null
                    ? new PartMerger(order, prefixes, counts)
                    : new Home(order, prefixes, keeps, counts));
  }

  /** Rows that native code makes, a batch at a time. */
  interface NativeRows {
    long[] next(long maxRows);

    void close();
  }

  /** Of groups that are folded before they are read: this JVM keeps them for the next epoch, or for this task alone. */
  private static final class Home implements NativeRows {
    private final long reader;

    Home(MergeSpec order, MergedRows.Prefixes prefixes, boolean keeps, MergeCounts counts) {
      long[] told = new long[2]; // bytes of blocks, groups
      MergeSpec.Home home = order.home;
      try (GatheredBlocks blocks = new GatheredBlocks(order, prefixes)) {
        reader =
            Native.openHome(
                order.planText,
                home.query(),
                prefixes.lo(),
                prefixes.hi(),
                home.before(),
                home.version(),
                home.epoch(),
                home.evictedMicros(),
                home.pane(),
                home.closingMicros(),
                order.changedIn >= 0,
                keeps,
                blocks,
                told);
        blocks.count(counts, Math.max(0, told[0] - blocks.brought()));
        counts.opened(told[1]);
      }
    }

    @Override
    public long[] next(long maxRows) {
      return Native.nextHomeRows(reader, maxRows);
    }

    @Override
    public void close() {
      Native.closeHomeRows(reader);
    }
  }

  @Override
  public boolean next() {
    if (TaskContext.get().isInterrupted()) {
      throw new TaskKilledException("the merge task was killed");
    }
    long[] numbers = clock.time(() -> rows.next(BATCH_ROWS));
    if (numbers == null) {
      return false;
    }
    batch.setNumRows((int) numbers[0]);
    counts.gave(numbers[0]);
    for (int i = 0; i < columns.length; i++) {
      int at = 1 + NUMBERS_A_COLUMN * i;
      columns[i].set(numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]);
    }
    return true;
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  public void close() {
    rows.close();
    clock.stop();
  }
}
