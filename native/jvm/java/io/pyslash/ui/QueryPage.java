package io.pyslash.ui;

import com.fasterxml.jackson.databind.JsonNode;
import jakarta.servlet.http.HttpServletRequest;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.ToDoubleFunction;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.spark.ui.WebUIPage;
import scala.collection.immutable.Seq;
import scala.xml.Node;

/** One run of a query: what it is, what its last epochs did, and where their time went. */
final class QueryPage extends WebUIPage {
  /** A part of an epoch's time, and the figures that make it up. */
  private record Phase(String name, String colour, List<String> figures) {
    double millis(EpochData epoch) {
      return figures.stream().mapToDouble(epoch::sum).sum();
    }
  }

  private static final List<Phase> PHASES =
      List.of(
          new Phase("update", "#1f77b4", List.of("update_ms")),
          new Phase("checkpoint", "#2ca02c", List.of("checkpoint_ms", "replica_ms")),
          new Phase("commit", "#bcbd22", List.of("commit_ms")),
          new Phase("late rows", "#8c564b", List.of("late_ms")),
          new Phase("merge", "#ff7f0e", List.of("merge_ms")),
          new Phase("sink", "#9467bd", List.of("sink_ms")),
          new Phase("recovery", "#d62728", List.of("agents_ms", "restore_ms")));
  private static final Chart.Series SPARK = new Chart.Series("Spark's own part", "#c7c7c7");
  private static final List<String> DONE =
      List.of(
          "Epoch", "Operator", "Finished", "Watermark (UTC)", "Rows", "Late rows", "Groups", "Windows", "Merged rows", "Ingest",
          "Merged by", "Bytes read", "Bytes shuffled", "Checkpoint", "Recoveries");
  private static final List<String> SPENT =
      List.of(
          "Epoch", "Operator", "Micro-batch (ms)", "Update (ms)", "Checkpoint (ms)", "Replica (ms)", "Commit (ms)",
          "Late rows (ms)", "Merge (ms)", "Sink (ms)", "Recovery (ms)", "Agents", "Pinned", "Spilled");

  private final SlashTab tab;

  QueryPage(SlashTab tab) {
    super("query");
    this.tab = tab;
  }

  @Override
  public Seq<Node> render(HttpServletRequest request) {
    String name = request.getParameter("run");
    RunData run = name == null ? null : SlashStore.run(tab.store(), name);
    if (run == null) {
      return Html.page(request, "No such run", "<p>This run is not known, or no longer: the last ones are kept.</p>", tab);
    }
    List<EpochData> epochs = SlashStore.epochs(tab.store(), run.run);
    StringBuilder page = new StringBuilder(Html.facts(facts(run)));
    if (run.isOnSpark()) {
      page.append(reason(run));
    }
    page.append(operators(run, request));
    if (!epochs.isEmpty()) {
      page.append(charts(epochs)).append(agents(epochs.get(epochs.size() - 1)));
      page.append(LatePartitions.table(epochs.get(epochs.size() - 1).operators));
      page.append(Html.heading("Epochs (the last " + epochs.size() + " of " + run.epochs + ")"));
      page.append(Html.table("epochs", DONE, rows(epochs, QueryPage::done)));
      page.append(Html.heading("Time and memory of these epochs"));
      page.append(Html.table("spent", SPENT, rows(epochs, QueryPage::spent)));
    }
    return Html.page(request, "Query " + run.name(), page.toString(), tab);
  }

  private static List<List<String>> facts(RunData run) {
    List<List<String>> facts = new ArrayList<>();
    facts.add(List.of("Status", run.status() + ", on " + (run.isOnSpark() ? "plain Spark" : "pyslash")));
    facts.add(List.of("Query id", run.figures.path("id").asText()));
    facts.add(List.of("Run id", run.run));
    facts.add(List.of("Output mode", run.figures.path("mode").asText()));
    facts.add(List.of("Sink", run.figures.path("sink").asText()));
    if (!run.isOnSpark()) {
      run.figures.path("settings").properties().forEach(
          setting -> facts.add(List.of("spark.slash." + setting.getKey(), setting.getValue().asText())));
    }
    facts.add(List.of("Started", Html.time(Figures.whole(run.figures.path("millis")))));
    if (!run.failure.isEmpty()) {
      facts.add(List.of("Failure", run.failure));
    }
    return facts;
  }

  private static String reason(RunData run) {
    String text =
        "<p><strong>" + Html.escape("It runs on plain Spark: " + run.figures.path("reason").asText()) + "</strong></p>"
            + "<p>" + Html.escape("Operator: " + run.figures.path("operator").asText()) + "</p>"
            + "<p class=\"mb-0\">" + Html.escape("What would help: " + run.figures.path("help").asText()) + "</p>";
    return "<div id=\"reason\" class=\"alert alert-warning\">" + text + "</div>";
  }

  private String operators(RunData run, HttpServletRequest request) {
    JsonNode operators = run.figures.path("operators");
    List<List<String>> rows = new ArrayList<>();
    for (int place = 0; place < operators.size(); place++) {
      String told =
          StreamSupport.stream(operators.get(place).path("told").spliterator(), false)
              .map(line -> "<strong>" + Html.escape(line.path("name").asText()) + "</strong> "
                  + Html.escape(line.path("text").asText()))
              .collect(Collectors.joining("<br/>"));
      rows.add(List.of(Integer.toString(place), Html.escape(operators.get(place).path("name").asText()), told, state(run, place, request)));
    }
    return rows.isEmpty()
        ? ""
        : Html.heading("Stateful operators")
            + Html.table("operators", List.of("Operator", "In Spark's plan", "How pyslash executes it", "State"), rows);
  }

  private String state(RunData run, int operator, HttpServletRequest request) {
    return tab.hasState(run) ? Html.link(StatePage.address(request, tab, run, operator), "Sizes and keys") : "";
  }

  private static String charts(List<EpochData> epochs) {
    List<Chart.Series> phases = new ArrayList<>();
    PHASES.forEach(phase -> phases.add(new Chart.Series(phase.name, phase.colour)));
    phases.add(SPARK);
    List<Chart.Bar> times = epochs.stream().map(QueryPage::phases).collect(Collectors.toList());
    List<Chart.Series> memory =
        List.of(new Chart.Series("pinned", "#1f77b4"), new Chart.Series("spilled to disk", "#ff7f0e"));
    return Html.heading("Rows per second")
        + Chart.of("rows", List.of(new Chart.Series("rows/s", "#1f77b4")), bars(epochs, List.of(EpochData::rowsPerSecond)),
            Chart.Unit.COUNT)
        + Html.heading("Milliseconds of a micro-batch")
        + Chart.of("phases", phases, times, Chart.Unit.MILLIS)
        + Html.heading("State in agents")
        + Chart.of("memory", memory,
            bars(epochs, List.of(epoch -> epoch.most("pinned_bytes"), epoch -> epoch.most("spilled_bytes"))), Chart.Unit.BYTES);
  }

  private static Chart.Bar phases(EpochData epoch) {
    double[] values = new double[PHASES.size() + 1];
    double known = 0;
    for (int place = 0; place < PHASES.size(); place++) {
      values[place] = PHASES.get(place).millis(epoch);
      known += values[place];
    }
    values[PHASES.size()] = Math.max(0, epoch.allMillis() - known);
    return new Chart.Bar(epoch.epoch, values);
  }

  private static List<Chart.Bar> bars(List<EpochData> epochs, List<ToDoubleFunction<EpochData>> values) {
    return epochs.stream()
        .map(epoch -> new Chart.Bar(
            epoch.epoch, values.stream().mapToDouble(value -> value.applyAsDouble(epoch)).toArray()))
        .collect(Collectors.toList());
  }

  private static String agents(EpochData last) {
    Map<String, JsonNode> agents = SlashMetrics.agents(last.operators);
    List<List<String>> rows =
        agents.entrySet().stream()
            .map(agent -> List.of(
                Html.escape(agent.getKey()),
                Html.bytes(Figures.number(agent.getValue().path("used_bytes"))),
                Html.bytes(Figures.number(agent.getValue().path("arena_bytes"))),
                Html.bytes(Figures.number(agent.getValue().path("spilled_bytes")))))
            .collect(Collectors.toList());
    return Html.heading("Agents (" + rows.size() + ")")
        + Html.table("agents", List.of("Agent", "Pinned", "Arena", "Spilled"), rows);
  }

  private static List<List<String>> rows(List<EpochData> epochs, BiFunction<EpochData, JsonNode, List<String>> row) {
    List<EpochData> newest = new ArrayList<>(epochs);
    Collections.reverse(newest);
    List<List<String>> rows = new ArrayList<>();
    for (EpochData epoch : newest) {
      for (JsonNode figures : epoch.operators) {
        rows.add(row.apply(epoch, figures));
      }
    }
    return rows;
  }

  /** What an operator did in an epoch. */
  private static List<String> done(EpochData epoch, JsonNode figures) {
    List<String> cells = new ArrayList<>();
    cells.add(Long.toString(epoch.epoch));
    cells.add(Html.number(Figures.number(figures.path("operator"))));
    cells.add(Html.time(epoch.millis));
    cells.add(Html.watermark(figures));
    cells.add(Html.rows(figures));
    cells.add(Html.late(figures));
    for (String name : List.of("groups", "windows", "merged_rows")) {
      cells.add(Html.number(Figures.number(figures.path(name))));
    }
    cells.add(Html.escape(figures.path("ingest").asText()));
    cells.add(Html.escape((figures.path("merged_by").asText() + " " + figures.path("emit").asText()).strip()));
    cells.add(transports(figures, "bytes_read"));
    cells.add(transports(figures, "bytes_shuffled"));
    cells.add(Html.bytes(Figures.number(figures.path("checkpoint_bytes"))));
    cells.add(Html.number(Figures.number(figures.path("recoveries"))) + (figures.path("replayed").asBoolean() ? " replayed" : ""));
    return cells;
  }

  /** The time and memory that it took. */
  private static List<String> spent(EpochData epoch, JsonNode figures) {
    List<String> cells = new ArrayList<>();
    cells.add(Long.toString(epoch.epoch));
    cells.add(Html.number(Figures.number(figures.path("operator"))));
    cells.add(epoch.triggerMillis > 0 ? Html.number(epoch.triggerMillis) : "");
    for (String name : List.of("update_ms", "checkpoint_ms", "replica_ms", "commit_ms", "late_ms", "merge_ms", "sink_ms")) {
      cells.add(Html.millis(Figures.number(figures.path(name))));
    }
    cells.add(Html.millis(Figures.number(figures.path("agents_ms")) + Figures.number(figures.path("restore_ms"))));
    cells.add(Html.number(Figures.number(figures.path("agents"))));
    cells.add(Html.bytes(Figures.number(figures.path("pinned_bytes"))));
    cells.add(Html.bytes(Figures.number(figures.path("spilled_bytes"))));
    return cells;
  }

  private static String transports(JsonNode figures, String name) {
    return figures.path(name).properties().stream()
        .map(entry -> Html.escape(entry.getKey()) + " " + Html.bytes(Figures.number(entry.getValue())))
        .collect(Collectors.joining(", "));
  }
}
