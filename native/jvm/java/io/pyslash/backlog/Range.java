package io.pyslash.backlog;

import com.fasterxml.jackson.databind.JsonNode;
import io.pyslash.backlog.Offsets.Partition;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.ToLongFunction;

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

  boolean isEmpty() {
    return partitions().isEmpty();
  }

  /** Whether each partition has a beginning and an end. */
  boolean isWhole() {
    return from.byPartition().keySet().equals(partitions());
  }

  /** Of these partitions, the records from one offset to another; those that have none are not in it. */
  static Range between(
      Set<Partition> partitions, ToLongFunction<Partition> from, ToLongFunction<Partition> to, long since) {
    SortedMap<Partition, Long> begins = new TreeMap<>();
    SortedMap<Partition, Long> ends = new TreeMap<>();
    for (Partition partition : partitions) {
      long begin = from.applyAsLong(partition);
      long end = to.applyAsLong(partition);
      if (begin < end) {
        begins.put(partition, begin);
        ends.put(partition, end);
      }
    }
    return new Range(new Offsets(begins), new Offsets(ends), since);
  }

  private Set<Partition> partitions() {
    return to.byPartition().keySet();
  }

  /** What is left once so many records, at most all, have been read: of each partition the same share. */
  Range without(long records) {
    long all = records();
    return between(
        partitions(), one -> from.of(one) + share(to.of(one) - from.of(one), records, all), to::of, since);
  }

  /** The last ones, so many, at most all: of each partition the same share. */
  Range newest(long records) {
    long all = records();
    return between(partitions(), one -> to.of(one) - share(to.of(one) - from.of(one), records, all), to::of, since);
  }

  /** What comes before such a rest. */
  Range before(Range rest) {
    return between(
        partitions(), from::of, one -> Objects.requireNonNullElse(rest.from.of(one), to.of(one)), since);
  }

  /** Of so many, as many as {@code part} is of {@code all}; rounded up, so that each partition gets on. */
  private static long share(long of, long part, long all) {
    return part >= all ? of : Math.min(of, (long) Math.ceil((double) of * part / all));
  }
}
