package io.pyslash.merge;

import io.pyslash.core.Json;
import io.pyslash.core.SlashException;
import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.SparkContext;
import org.apache.spark.util.LongAccumulator;

/** What merge tasks do: bytes of blocks that they read, by transport, rows that they give, their time, and homes. */
public final class MergeCounts implements Serializable {
  private static final long serialVersionUID = 1L;

  /** Of blocks that are read where they are. */
  static final String IN_PLACE = "shm";

  /** Bytes by transport, before a task counts them. */
  static final class Bytes extends LinkedHashMap<String, Long> {
    private static final long serialVersionUID = 1L;

    void add(String transport, long bytes) {
      merge(transport, bytes, Long::sum);
    }

    long sum() {
      return values().stream().mapToLong(Long::longValue).sum();
    }
  }

  /** A task's time while it has merged rows to give: that of the merge, and all other, of what stands above it. */
  public static final class Clock {
    private final MergeCounts counts;
    private final long opened = System.nanoTime();
    private long merging;
    private boolean over;

    public Clock(MergeCounts counts) {
      this.counts = counts;
    }

    /** What native code gives, in time that counts as the merge's; its failure is one for the driver. */
    public <T> T time(Supplier<T> merge) {
      long begun = System.nanoTime();
      try {
        return merge.get();
      } catch (SlashException failure) {
        throw failure.forDriver();
      } finally {
        merging += System.nanoTime() - begun;
      }
    }

    /** The task has all its rows. Acts once. */
    public void stop() {
      if (!over) {
        over = true;
        counts.nanosMerging.add(merging);
        counts.nanosAbove.add(System.nanoTime() - opened - merging);
      }
    }
  }

  private final LinkedHashMap<String, LongAccumulator> bytesRead = new LinkedHashMap<>();
  private final LongAccumulator rowsGiven;
  private final LongAccumulator nanosMerging;
  private final LongAccumulator nanosAbove;
  private final LongAccumulator homesOpened;
  private final LongAccumulator groupsInHomes;

  public MergeCounts(SparkContext spark) {
    for (String transport : new String[] {IN_PLACE, "tcp", "verbs"}) {
      bytesRead.put(transport, spark.longAccumulator("bytes that pyslash has read by " + transport));
    }
    rowsGiven = spark.longAccumulator("rows merged by pyslash");
    nanosMerging = spark.longAccumulator("nanoseconds of pyslash's merges");
    nanosAbove = spark.longAccumulator("nanoseconds of what takes rows that pyslash has merged");
    homesOpened = spark.longAccumulator("homes of pyslash's groups that tasks have opened");
    groupsInHomes = spark.longAccumulator("groups in these homes");
  }

  void read(String transport, long bytes) {
    bytesRead.get(transport).add(bytes);
  }

  public void gave(long rows) {
    rowsGiven.add(rows);
  }

  /** A task reads a home of so many groups. */
  void opened(long groups) {
    homesOpened.add(1);
    groupsInHomes.add(groups);
  }

  /** What tasks have done: bytes by transport, rows, nanoseconds of merges and of what is above, homes and their groups. */
  record Totals(
      Map<String, Long> bytesRead, long rows, long mergeNs, long aboveNs, long homes, long groups) {}

  /** {@link Totals} so far, in JSON. */
  public String soFar() {
    Map<String, Long> bytes = new LinkedHashMap<>();
    bytesRead.forEach((transport, count) -> bytes.put(transport, count.sum()));
    return Json.of(
        new Totals(
            bytes,
            rowsGiven.sum(),
            nanosMerging.sum(),
            nanosAbove.sum(),
            homesOpened.sum(),
            groupsInHomes.sum()));
  }
}
