package io.pyslash.merge;

import io.pyslash.agent.PeerArenas;
import io.pyslash.core.BlockSource;
import io.pyslash.core.Native;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The blocks of an order as one task reads them, of keys in a range of hash prefixes: those of agents whose memory this JVM
 * can map where they lie, the others in a landing, which the executor's own agent fills.
 */
public final class GatheredBlocks implements BlockSource, AutoCloseable {
  static final long IN_ITS_ARENA = -1;
  private static final int OFFSET = 0;
  private static final int LENGTH = 1;
  private static final int EPOCH = 2;
  private static final int FIRST_RANGE = 3;
  private static final int ALIGNMENT = 64;

  private final MergeSpec order;
  private final MergedRows.Prefixes prefixes;
  private List<MergeSpec.Block> blocks; // that are read
  private final Map<String, Long> mapped = new LinkedHashMap<>();
  private final MergeCounts.Bytes brought = new MergeCounts.Bytes();
  private Landing landing;

  public GatheredBlocks(MergeSpec order, MergedRows.Prefixes prefixes) {
    this.order = order;
    this.prefixes = prefixes;
    blocks = order.blocks;
  }

  /** Bytes of these prefixes that would be brought from other agents. */
  long bytesElsewhere(MergedRows.Prefixes of) {
    long bytes = 0;
    for (MergeSpec.Block block : blocks) {
      long[] wanted = ranges(block, of);
      if (arena(block, wanted) == 0) {
        for (int i = FIRST_RANGE; i < wanted.length; i += 2) {
          bytes += wanted[i + 1];
        }
      }
    }
    return bytes;
  }

  @Override
  public byte[][] heads() {
    return blocks.stream().map(MergeSpec.Block::head).toArray(byte[][]::new);
  }

  @Override
  public long[] bring(boolean all) {
    if (all) {
      blocks = order.all();
    }
    long[] places = new long[2 * blocks.size()];
    Map<String, List<Landing.Block>> elsewhere = new LinkedHashMap<>();
    List<Integer> landed = new ArrayList<>();
    long end = 0;
    for (int i = 0; i < blocks.size(); i++) {
      MergeSpec.Block block = blocks.get(i);
      long[] wanted = ranges(block, prefixes);
      if (!all && wanted[EPOCH] != order.home.epoch()) {
        continue;
      }
      places[2 * i] = arena(block, wanted);
      places[2 * i + 1] = IN_ITS_ARENA;
      if (places[2 * i] == 0) {
        landed.add(i);
        places[2 * i + 1] = end;
        long[] ranges = Arrays.copyOfRange(wanted, FIRST_RANGE, wanted.length);
        if (ranges.length > 0) {
          elsewhere
              .computeIfAbsent(block.agent().descriptor(), peer -> new ArrayList<>())
              .add(new Landing.Block(wanted[OFFSET], end, ranges));
        }
        end += (wanted[LENGTH] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
      }
    }
    if (!landed.isEmpty()) {
      landing = new Landing(order.reading, end, order.version());
      landing.bring(elsewhere, order.reading.transport(), brought);
      for (int i : landed) {
        places[2 * i] = landing.arena;
        places[2 * i + 1] = landing.at(places[2 * i + 1]);
      }
    }
    return places;
  }

  /** Counts what was read, `inPlace` of it where it lay. */
  public void count(MergeCounts counts, long inPlace) {
    counts.read(MergeCounts.IN_PLACE, inPlace);
    brought.forEach(counts::read);
  }

  /** Bytes that were brought from other agents. */
  public long brought() {
    return brought.sum();
  }

  @Override
  public void close() {
    if (landing != null) {
      landing.close();
      landing = null;
    }
  }

  private long[] ranges(MergeSpec.Block block, MergedRows.Prefixes of) {
    return Native.blockRanges(block.head(), order.paneLo, order.paneHi, of.lo(), of.hi());
  }

  /** The handle of the arena that the block can be read in; 0: it has to be brought. */
  private long arena(MergeSpec.Block block, long[] wanted) {
    // A block beyond the arena is on the agent's disk, and only the agent itself can serve it.
    if (!order.reading.inPlace() || wanted[OFFSET] >= block.agent().arenaBytes()) {
      return 0;
    }
    return mapped.computeIfAbsent(block.agent().descriptor(), PeerArenas::ifHere);
  }
}
