package io.pyslash.backlog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Collections;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;

/** An offset of each partition of Kafka topics, as Spark's connector has them: {@code {"topic":{"0":12,"1":34}}}. */
record Offsets(SortedMap<Partition, Long> byPartition) {
  static final Offsets NONE = new Offsets(Collections.emptySortedMap());

  /** A partition of a topic. */
  record Partition(String topic, int number) implements Comparable<Partition> {
    @Override
    public int compareTo(Partition other) {
      int topics = topic.compareTo(other.topic);
      return topics != 0 ? topics : Integer.compare(number, other.number);
    }
  }

  static Offsets of(JsonNode topics) {
    SortedMap<Partition, Long> found = new TreeMap<>();
    for (Map.Entry<String, JsonNode> topic : topics.properties()) {
      for (Map.Entry<String, JsonNode> one : topic.getValue().properties()) {
        found.put(new Partition(topic.getKey(), Integer.parseInt(one.getKey())), one.getValue().asLong());
      }
    }
    return new Offsets(found);
  }

  /** By topic and number, both in order. */
  Map<String, Map<Integer, Long>> toMap() {
    Map<String, Map<Integer, Long>> topics = new TreeMap<>();
    byPartition.forEach(
        (partition, offset) ->
            topics.computeIfAbsent(partition.topic, topic -> new TreeMap<>()).put(partition.number, offset));
    return topics;
  }

  /** The offset of a partition; null if it has none. */
  Long of(Partition partition) {
    return byPartition.get(partition);
  }
}
