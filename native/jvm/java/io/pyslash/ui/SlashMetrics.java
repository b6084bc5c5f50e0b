package io.pyslash.ui;

import com.codahale.metrics.Counter;
import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.metrics.source.Source;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent;

/**
 * The source `pyslash` of Spark's metrics system, fed by our events. Of a query (`queries.NAME.*`, by its id where it has
 * no name) the counters stay when it ends, so that the last epoch is still read, until a hundred others have ended; its
 * gauges, those of partitions of topics that it loses rows of (`queries.NAME.partitions.PARTITION.*`), and those of its agents
 * (`agents.HOST_INCARNATION.*`), go.
 */
public final class SlashMetrics extends SparkListener implements Source {
  private static final int MOST_ENDED = 100;
  private static final int ID_LETTERS = 8;

  /** Of each operator, added up: the metric, and the figure of an epoch. */
  private static final Map<String, String> COUNTERS =
      Map.ofEntries(
          Map.entry("rows", "rows"),
          Map.entry("lateRows", "late_rows"),
          Map.entry("mergedRows", "merged_rows"),
          Map.entry("updateMs", "update_ms"),
          Map.entry("commitMs", "commit_ms"),
          Map.entry("lateMs", "late_ms"),
          Map.entry("mergeMs", "merge_ms"),
          Map.entry("sinkMs", "sink_ms"),
          Map.entry("checkpointMs", "checkpoint_ms"),
          Map.entry("replicaMs", "replica_ms"),
          Map.entry("agentsMs", "agents_ms"),
          Map.entry("restoreMs", "restore_ms"),
          Map.entry("checkpointBytes", "checkpoint_bytes"),
          Map.entry("replicaBytes", "replica_bytes"),
          Map.entry("promotions", "promotions"),
          Map.entry("recordsBySpark", "records_by_spark"),
          Map.entry("recordsFetched", "records_fetched"));

  private static final Map<String, String> GAUGES =
      Map.of("groups", "groups", "windows", "windows", "blocks", "blocks");
  // Of agents and of the source, which all operators of a query share.
  private static final Map<String, String> SHARED_GAUGES =
      Map.ofEntries(
          Map.entry("pinnedBytes", "pinned_bytes"),
          Map.entry("spilledBytes", "spilled_bytes"),
          Map.entry("agents", "agents"),
          Map.entry("behind", "behind"),
          Map.entry("debt", "debt"),
          Map.entry("sampleRate", "sample_rate"));
  private static final List<String> SIDES = List.of("Left", "Right"); // of a join
  private static final Map<String, String> OF_AGENT =
      Map.of("usedBytes", "used_bytes", "arenaBytes", "arena_bytes", "spilledBytes", "spilled_bytes");

  private final MetricRegistry registry = new MetricRegistry();
  private final Map<String, Double> values = new ConcurrentHashMap<>(); // of gauges
  private final Map<String, Double> fractions = new HashMap<>(); // of counters, which count whole numbers
  private final Map<String, String> names = new ConcurrentHashMap<>(); // of runs that have not ended
  private final Map<String, Set<String>> agents = new HashMap<>(); // by run
  private final Map<String, Set<String>> partitions = new HashMap<>(); // gauges of them, by the query's name
  private final Deque<String> ended = new ArrayDeque<>();
  private final Set<String> running = ConcurrentHashMap.newKeySet(); // runs on pyslash
  private final Deque<String> over = new ArrayDeque<>(); // the last runs: a start may be told after its end

  SlashMetrics() {
    registry.counter("fallbacks");
    registry.counter("recoveries");
    registry.register("activeQueries", (Gauge<Integer>) running::size);
  }

  @Override
  public String sourceName() {
    return "pyslash";
  }

  @Override
  public MetricRegistry metricRegistry() {
    return registry;
  }

  @Override
  public synchronized void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof SlashEvent ours) {
      if (ours.figures.path("fallback").asBoolean()) {
        registry.counter("fallbacks").inc();
      }
      if (ours.kind.equals(SlashEvent.EPOCH)) {
        finished(ours.run(), ours.figures);
      }
      if (ours.kind.equals(SlashEvent.LEFT) || !ours.figures.path("reason").asText().isEmpty()) {
        left(ours.run());
      } else if (!over.contains(ours.run())) {
        running.add(ours.run());
      }
    } else if (event instanceof QueryTerminatedEvent end) {
      left(end.runId().toString());
      ended(end.runId().toString());
    }
  }

  private void left(String run) {
    running.remove(run);
    over.add(run);
    if (over.size() > MOST_ENDED) {
      over.remove();
    }
  }

  /** What agents have last said of themselves, by their names; operators of a query share them. */
  static Map<String, JsonNode> agents(JsonNode operators) {
    Map<String, JsonNode> found = new TreeMap<>();
    for (JsonNode figures : operators) {
      figures.path("memory").properties().forEach(agent -> found.put(agent.getKey(), agent.getValue()));
    }
    return found;
  }

  private void finished(String run, JsonNode figures) {
    EpochData epoch = new EpochData();
    epoch.operators = figures.path("operators");
    String name = names.computeIfAbsent(run, key -> "queries." + ofQuery(figures) + ".");
    ended.remove(name); // it was started again
    count(name + "epochs", 1);
    COUNTERS.forEach((metric, figure) -> count(name + metric, epoch.sum(figure)));
    count(name + "recoveries", epoch.most("recoveries"));
    registry.counter("recoveries").inc(Math.round(epoch.most("recoveries")));
    for (JsonNode operator : epoch.operators) {
      transports(name + "bytesRead", operator.path("bytes_read"));
      transports(name + "bytesShuffled", operator.path("bytes_shuffled"));
      for (int side = 0; side < operator.path("late_by_input").size() && side < SIDES.size(); side++) {
        count(name + "lateRows" + SIDES.get(side), Figures.number(operator.path("late_by_input").path(side)));
      }
    }
    GAUGES.forEach((metric, figure) -> tell(name + metric, epoch.sum(figure)));
    SHARED_GAUGES.forEach((metric, figure) -> tell(name + metric, epoch.most(figure)));
    tellOf(name, LatePartitions.gauges(epoch.operators));
    tell(name + "epochMs", figures.path("wall_ms").asDouble());
    Map<String, JsonNode> now = agents(epoch.operators);
    now.forEach((agent, memory) ->
        OF_AGENT.forEach((metric, figure) -> tell(ofAgent(agent) + metric, memory.path(figure).asDouble())));
    meet(run, now.keySet());
  }

  private void transports(String metric, JsonNode bytes) {
    bytes.properties().forEach(read -> {
      String transport = read.getKey().substring(0, 1).toUpperCase(Locale.ROOT) + read.getKey().substring(1);
      count(metric + transport, read.getValue().asDouble());
    });
  }

  /** The run has these agents now; the gauges of those that no run has any longer go. */
  private void meet(String run, Set<String> now) {
    Set<String> before = now.isEmpty() ? agents.remove(run) : agents.put(run, new HashSet<>(now));
    if (before != null) {
      before.stream()
          .filter(agent -> agents.values().stream().noneMatch(all -> all.contains(agent)))
          .forEach(agent -> OF_AGENT.keySet().forEach(metric -> forget(ofAgent(agent) + metric)));
    }
  }

  private void ended(String run) {
    String name = names.remove(run);
    meet(run, Set.of());
    if (name == null || names.containsValue(name)) {
      return;
    }
    GAUGES.keySet().forEach(metric -> forget(name + metric));
    SHARED_GAUGES.keySet().forEach(metric -> forget(name + metric));
    tellOf(name, Map.of());
    forget(name + "epochMs");
    ended.add(name);
    if (ended.size() > MOST_ENDED) {
      String oldest = ended.remove();
      registry.removeMatching((metric, any) -> metric.startsWith(oldest));
      fractions.keySet().removeIf(metric -> metric.startsWith(oldest));
    }
  }

  /** A query has these gauges of partitions now; those that it does not have any longer go. */
  private void tellOf(String name, Map<String, Double> gauges) {
    Set<String> before = partitions.getOrDefault(name, Set.of());
    before.stream().filter(gauge -> !gauges.containsKey(gauge)).forEach(gauge -> forget(name + gauge));
    partitions.put(name, gauges.keySet());
    gauges.forEach((gauge, value) -> tell(name + gauge, value));
  }

  private void count(String metric, double more) {
    Counter counter = registry.counter(metric);
    double whole = fractions.getOrDefault(metric, 0.0) + more;
    counter.inc((long) whole);
    fractions.put(metric, whole - (long) whole);
  }

  private void tell(String metric, double value) {
    if (values.put(metric, value) == null) {
      registry.register(metric, (Gauge<Double>) () -> values.getOrDefault(metric, 0.0));
    }
  }

  private void forget(String metric) {
    values.remove(metric);
    registry.remove(metric);
  }

  /** Its name, or its id where it has none. Names that are alike in what sinks take are told apart by the id. */
  private static String ofQuery(JsonNode figures) {
    String name = figures.path("name").asText();
    String id = figures.path("id").asText();
    if (name.isEmpty()) {
      return plain(id);
    }
    boolean isAlone = name.matches("[A-Za-z0-9_-]+");
    return isAlone ? name : plain(name) + "_" + id.substring(0, Math.min(ID_LETTERS, id.length()));
  }

  private static String ofAgent(String agent) {
    return "agents." + plain(agent) + ".";
  }

  /** A part of a metric's name: sinks take dots for levels. */
  static String plain(String name) {
    return name.replaceAll("[^A-Za-z0-9-]", "_");
  }
}
