package io.pyslash.merge;

import io.pyslash.core.Native;
import io.pyslash.core.SlashException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;

/**
 * Rows of windows that are merged from blocks: in parts of the task's hash prefixes, each of which is brought from other
 * agents while the one before it is merged. What lies within sight is not cut.
 */
final class PartMerger implements MergeReader.NativeRows {
  // Many messages are on their way at once, and few of them in memory.
  private static final long PART_BYTES = 8 << 20;
  private static final int MOST_PARTS = 64;
  // A segment that reaches into two parts is brought for both. Where parts would cost more than that, there is one.
  private static final double MOST_REPEATED = 1.25;
  private static final Executor AHEAD =
      Executors.newCachedThreadPool(
          work -> {
            Thread thread = new Thread(work, "pyslash gathers");
            thread.setDaemon(true);
            return thread;
          });

  /** Blocks of a part, and where they can be read. */
  private record Part(MergedRows.Prefixes prefixes, GatheredBlocks blocks, long[] places) {}

  private final MergeSpec order;
  private final MergeCounts counts;
  private final Queue<MergedRows.Prefixes> left;
  private CompletableFuture<Part> ahead;
  private Part part;
  private long merger;

  PartMerger(MergeSpec order, MergedRows.Prefixes prefixes, MergeCounts counts) {
    this.order = order;
    this.counts = counts;
    left = new ArrayDeque<>(cuts(order, prefixes));
    try {
      begin(gathered(order, left.remove()));
    } catch (SlashException failure) {
      close();
      throw failure;
    }
  }

  @Override
  public long[] next(long maxRows) {
    long[] rows;
    while ((rows = Native.nextRows(merger, maxRows)) == null) {
      if (ahead == null) {
        return null;
      }
      end();
      try {
        Part next = ahead.join();
        ahead = null;
        begin(next);
      } catch (CompletionException failed) {
        ahead = null;
        throw failed.getCause() instanceof SlashException ours ? ours : failed;
      }
    }
    return rows;
  }

  @Override
  public void close() {
    end();
    if (ahead != null) {
      ahead.thenAccept(unread -> unread.blocks.close());
      ahead = null;
    }
  }

  private void begin(Part begun) {
    part = begun;
    merger =
        Native.createMerger(
            order.planText, order.windows, part.prefixes.lo(), part.prefixes.hi(), order.changedIn);
    long inPlace = 0;
    for (int i = 0; i < order.blocks.size(); i++) {
      long place = part.places[2 * i + 1];
      long taken = Native.addBlock(merger, order.blocks.get(i).head(), part.places[2 * i], place);
      inPlace += place == GatheredBlocks.IN_ITS_ARENA ? taken : 0;
    }
    part.blocks.count(counts, inPlace);
    if (!left.isEmpty()) {
      MergedRows.Prefixes next = left.remove();
      ahead = CompletableFuture.supplyAsync(() -> gathered(order, next), AHEAD);
    }
  }

  private void end() {
    if (part != null) {
      Native.closeMerger(merger);
      part.blocks.close();
      part = null;
    }
  }

  private static Part gathered(MergeSpec order, MergedRows.Prefixes prefixes) {
    GatheredBlocks blocks = new GatheredBlocks(order, prefixes);
    try {
      return new Part(prefixes, blocks, blocks.bring(true));
    } catch (RuntimeException failure) {
      blocks.close();
      throw failure;
    }
  }

  private static List<MergedRows.Prefixes> cuts(MergeSpec order, MergedRows.Prefixes prefixes) {
    GatheredBlocks blocks = new GatheredBlocks(order, prefixes);
    long whole = blocks.bytesElsewhere(prefixes);
    // A power of two, as the prefixes of a segment are: fewer segments then reach into two parts.
    int count = 1;
    while (count < MOST_PARTS && count * PART_BYTES < whole) {
      count *= 2;
    }
    for (; count > 1; count /= 2) {
      List<MergedRows.Prefixes> cuts = equalCuts(prefixes, count);
      if (cuts.stream().mapToLong(blocks::bytesElsewhere).sum() <= MOST_REPEATED * whole) {
        return cuts;
      }
    }
    return List.of(prefixes);
  }

  private static List<MergedRows.Prefixes> equalCuts(MergedRows.Prefixes prefixes, int count) {
    List<MergedRows.Prefixes> cuts = new ArrayList<>();
    long size = prefixes.hi() - prefixes.lo();
    for (int i = 0; i < count; i++) {
      long lo = prefixes.lo() + size * i / count;
      cuts.add(new MergedRows.Prefixes(lo, prefixes.lo() + size * (i + 1) / count, prefixes.places()));
    }
    return cuts;
  }
}
