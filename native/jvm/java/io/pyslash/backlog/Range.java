package io.pyslash.backlog;

import com.fasterxml.jackson.databind.JsonNode;
import io.pyslash.backlog.Offsets.Partition;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * Records of topics that have been left for later.
 *
 * @param since when, in milliseconds since 1970
 */
record Range(Offsets from, Offsets to, long since) {
  static Range of(JsonNode json) {
    return new Range(Offsets.of(json.get("from")), Offsets.of(json.get("to")), json.get("since").asLong());
  }

  Map<String, Object> toMap() {
    return Map.of("from", from.toMap(), "to", to.toMap(), "since", since);
  }

  long records() {
    return to.byPartition().entrySet().stream()
        .mapToLong(end -> Math.max(0, end.getValue() - from.of(end.getKey())))
        .sum();
  }

  /** Whether each partition has a beginning and an end. */
  boolean isWhole() {
    return from.byPartition().keySet().equals(to.byPartition().keySet());
  }

  /** What is left once so many records, at most all, have been read: of each partition the same share. */
  Range without(long records) {
    long all = records();
    SortedMap<Partition, Long> begins = new TreeMap<>();
    SortedMap<Partition, Long> ends = new TreeMap<>();
    to.byPartition()
        .forEach(
            (partition, end) -> {
              long begin = from.of(partition);
              long next = begin + share(end - begin, records, all);
              if (next < end) {
                begins.put(partition, next);
                ends.put(partition, end);
              }
            });
    return new Range(new Offsets(begins), new Offsets(ends), since);
  }

  /** Of so many, as many as {@code part} is of {@code all}; rounded up, so that whoever repeats it comes to an end. */
  static long share(long of, long part, long all) {
    return part >= all ? of : Math.min(of, (long) Math.ceil((double) of * part / all));
  }
}
