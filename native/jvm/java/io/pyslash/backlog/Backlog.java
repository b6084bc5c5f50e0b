package io.pyslash.backlog;

import com.fasterxml.jackson.databind.JsonNode;
import io.pyslash.backlog.Offsets.Partition;
import io.pyslash.core.Json;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * How far a stream of Kafka topics has been read: up to its {@code head}, but for its {@code debt}, the oldest first. Without
 * debt it is written as Spark's connector writes offsets, so that plain Spark can go on from there.
 *
 * @param shed records that were debt until then, and that nobody will read
 * @param read how many records have been read since there has been debt
 * @param rate the share of the records since the state before that were taken: 1 if all were
 */
record Backlog(Offsets head, List<Range> debt, List<Range> shed, long read, double rate) {
  /** Of Kafka's own offsets no topic can be called so: their value would be no list. */
  private static final String DEBT = "debt";
  private static final double LEAST_RATE = 0.01; // to read a record, and not to take it, costs something too
  private static final double STEPS = 1000;

  /** All records before these have been read. */
  static Backlog at(Offsets head) {
    return new Backlog(head, List.of(), List.of(), 0, 1);
  }

  static Backlog parse(String text) {
    JsonNode json = Json.parse(text);
    if (!json.path(DEBT).isArray()) {
      return at(Offsets.of(json));
    }
    return new Backlog(
        Offsets.of(json.get("head")),
        ranges(json.get(DEBT)),
        ranges(json.get("shed")),
        json.get("read").asLong(),
        json.path("rate").asDouble(1));
  }

  private static List<Range> ranges(JsonNode json) {
    List<Range> found = new ArrayList<>();
    json.forEach(one -> found.add(Range.of(one)));
    return found;
  }

  String toJson() {
    if (isPlain()) {
      return Json.of(head.toMap());
    }
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("head", head.toMap());
    fields.put(DEBT, debt.stream().map(Range::toMap).map(TreeMap::new).toList());
    fields.put("shed", shed.stream().map(Range::toMap).map(TreeMap::new).toList());
    fields.put("read", read);
    fields.put("rate", rate);
    return Json.of(fields);
  }

  boolean isPlain() {
    return debt.isEmpty() && shed.isEmpty() && rate == 1;
  }

  long owed() {
    return owed(debt);
  }

  private static long owed(List<Range> debt) {
    return debt.stream().mapToLong(Range::records).sum();
  }

  /** The same, once nobody asks any more what was shed. */
  Backlog settled() {
    return new Backlog(head, debt, List.of(), debt.isEmpty() ? 0 : read, 1);
  }

  /** All records up to this head, of which at most so many are taken. */
  Backlog sampled(Offsets newest, long most) {
    long records = arrived(newest, 0).records();
    double share = records <= most ? 1 : Math.max(LEAST_RATE, Math.floor((double) most / records * STEPS) / STEPS);
    return new Backlog(newest, debt, List.of(), read, share);
  }

  /**
   * The newest records up to this head, about so many at most, and one of each partition that has some; what lies between
   * becomes debt, as of {@code now}.
   */
  Backlog fresh(Offsets newest, long most, long now) {
    Range arrived = arrived(newest, now);
    Range taken = arrived.newest(most);
    Range skipped = arrived.before(taken);
    List<Range> all = new ArrayList<>(debt);
    if (!skipped.isEmpty()) {
      all.add(skipped);
    }
    return new Backlog(newest, all, List.of(), (debt.isEmpty() ? 0 : read) + taken.records(), 1);
  }

  /** Whether the topics have other partitions than these. */
  boolean differsInPartitions(Offsets newest) {
    return !head.byPartition().keySet().equals(newest.byPartition().keySet());
  }

  /** Of partitions that are new all records up to this head, and of the others none; those that are gone are not in it. */
  Backlog joined(Offsets newest) {
    SortedMap<Partition, Long> offsets = new TreeMap<>(newest.byPartition());
    offsets.replaceAll((partition, end) -> Objects.requireNonNullElse(head.of(partition), end));
    return new Backlog(new Offsets(offsets), debt, List.of(), read, 1);
  }

  /** What has arrived behind the head, in the same partitions. */
  private Range arrived(Offsets newest, long now) {
    return Range.between(newest.byPartition().keySet(), head::of, newest::of, now);
  }

  /** So many records of the debt, the oldest, have been read. */
  Backlog paid(long most) {
    List<Range> left = new ArrayList<>();
    long rest = most;
    for (Range range : debt) {
      long records = Math.min(rest, range.records());
      Range unread = range.without(records);
      rest -= records;
      if (!unread.isEmpty()) {
        left.add(unread);
      }
    }
    return new Backlog(head, left, List.of(), read + owed() - owed(left), 1);
  }

  /** Debt from before this time, in milliseconds since 1970, is let go. */
  Backlog expired(long before) {
    List<Range> old = debt.stream().filter(range -> range.since() < before).toList();
    List<Range> left = debt.stream().filter(range -> range.since() >= before).toList();
    return old.isEmpty() ? this : new Backlog(head, left, old, read, 1);
  }

  /** When the oldest debt was made; the greatest number if there is none. */
  long oldest() {
    return debt.stream().mapToLong(Range::since).min().orElse(Long.MAX_VALUE);
  }

  /**
   * Whether the records between an earlier state and this one have others before them that are still to be read: then the
   * watermark waits.
   */
  boolean isAhead(Backlog start) {
    return !debt.isEmpty() && !head.equals(start.head);
  }

  /**
   * What has been read since an earlier state: ranges of offsets, in each of which a partition is once. One without a
   * beginning is new; the connector wants to be told also of those that have no records in it.
   */
  List<Range> since(Backlog start) {
    List<Range> layers = new ArrayList<>();
    TreeSet<Partition> partitions = new TreeSet<>(start.head.byPartition().keySet());
    partitions.addAll(head.byPartition().keySet());
    List<SortedMap<Partition, Long>> begins = new ArrayList<>();
    List<SortedMap<Partition, Long>> ends = new ArrayList<>();
    for (Partition partition : partitions) {
      int layer = 0;
      for (Long[] span : read(start, partition)) {
        if (begins.size() == layer) {
          begins.add(new TreeMap<>());
          ends.add(new TreeMap<>());
        }
        if (span[0] != null) {
          begins.get(layer).put(partition, span[0]);
        }
        if (span[1] != null) {
          ends.get(layer).put(partition, span[1]);
        }
        layer++;
      }
    }
    for (int i = 0; i < begins.size(); i++) {
      for (Map.Entry<Partition, Long> other : head.byPartition().entrySet()) {
        if (ends.get(i).putIfAbsent(other.getKey(), other.getValue()) == null) {
          begins.get(i).put(other.getKey(), other.getValue());
        }
      }
      layers.add(new Range(new Offsets(begins.get(i)), new Offsets(ends.get(i)), 0));
    }
    return layers;
  }

  /** The spans of a partition's offsets that have been read since an earlier state, each its first one and its end. */
  private List<Long[]> read(Backlog start, Partition partition) {
    Long before = start.head.of(partition);
    Long after = head.of(partition);
    // The connector knows what it means that a partition is new, or gone, or begins anew.
    if (before == null || after == null || after < before) {
      return List.<Long[]>of(new Long[] {before, after});
    }
    Comparator<Long[]> byBegin = Comparator.comparing(span -> span[0]);
    List<Long[]> left = spans(partition, debt);
    left.addAll(spans(partition, shed));
    left.sort(byBegin);
    List<Long[]> unread = spans(partition, start.debt);
    unread.add(new Long[] {before, after});
    unread.sort(byBegin);
    List<Long[]> found = new ArrayList<>();
    int gap = 0; // of what is left: each lies in one of the spans that were unread
    for (Long[] span : unread) {
      long next = span[0];
      for (; gap < left.size() && left.get(gap)[0] < span[1]; gap++) {
        add(found, next, left.get(gap)[0]);
        next = left.get(gap)[1];
      }
      add(found, next, span[1]);
    }
    return found;
  }

  private static void add(List<Long[]> spans, long begin, long end) {
    if (begin < end) {
      spans.add(new Long[] {begin, end});
    }
  }

  private static List<Long[]> spans(Partition partition, List<Range> ranges) {
    List<Long[]> found = new ArrayList<>();
    for (Range range : ranges) {
      if (range.to().of(partition) != null) {
        found.add(new Long[] {range.from().of(partition), range.to().of(partition)});
      }
    }
    return found;
  }
}
