package io.pyslash.merge;

import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.SparkContext;
import org.apache.spark.util.LongAccumulator;

/** What merge tasks do: bytes of blocks that they read, by transport, and rows that they give. */
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

  private final LinkedHashMap<String, LongAccumulator> bytesRead = new LinkedHashMap<>();
  private final LongAccumulator rowsGiven;

  public MergeCounts(SparkContext spark) {
    for (String transport : new String[] {IN_PLACE, "tcp", "verbs"}) {
      bytesRead.put(transport, spark.longAccumulator("bytes that pyslash has read by " + transport));
    }
    rowsGiven = spark.longAccumulator("rows merged by pyslash");
  }

  void read(String transport, long bytes) {
    bytesRead.get(transport).add(bytes);
  }

  public void gave(long rows) {
    rowsGiven.add(rows);
  }

  /** So far: bytes by shm, tcp and verbs, then rows, by blanks. */
  public String soFar() {
    return Stream.concat(bytesRead.values().stream(), Stream.of(rowsGiven))
        .map(count -> Long.toString(count.sum()))
        .collect(Collectors.joining(" "));
  }
}
