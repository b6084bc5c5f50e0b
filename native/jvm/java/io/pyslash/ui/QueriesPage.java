package io.pyslash.ui;

import com.fasterxml.jackson.databind.JsonNode;
import jakarta.servlet.http.HttpServletRequest;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.spark.ui.WebUIPage;
import scala.collection.immutable.Seq;
import scala.xml.Node;

/** The tab's first page: the queries that run and those that have ended, and why some of them are on plain Spark. */
final class QueriesPage extends WebUIPage {
  private static final List<String> COLUMNS =
      List.of(
          "Name", "Status", "Runs on", "Stateful operators", "Epochs", "Rows", "Late rows", "Watermark (UTC)", "Rows/s, last epoch",
          "Last epoch (ms)", "Pinned", "Spilled", "Recoveries", "Started", "Last epoch at");

  private final SlashTab tab;

  QueriesPage(SlashTab tab) {
    super("");
    this.tab = tab;
  }

  @Override
  public Seq<Node> render(HttpServletRequest request) {
    List<RunData> runs = new ArrayList<>(SlashStore.runs(tab.store()));
    runs.sort(Comparator.comparingLong((RunData run) -> Figures.whole(run.figures.path("millis"))).reversed());
    List<RunData> running = runs.stream().filter(run -> !run.hasEnded).collect(Collectors.toList());
    List<RunData> ended = runs.stream().filter(run -> run.hasEnded).collect(Collectors.toList());
    List<RunData> onSpark = runs.stream().filter(RunData::isOnSpark).collect(Collectors.toList());
    StringBuilder page = new StringBuilder();
    page.append(Html.heading("Running queries (" + running.size() + ")")).append(table("running", running, request));
    page.append(Html.heading("Ended queries (" + ended.size() + ")")).append(table("ended", ended, request));
    if (!onSpark.isEmpty()) {
      page.append(Html.heading("On plain Spark (" + onSpark.size() + ")")).append(reasons(onSpark, request));
    }
    return Html.page(request, "Streaming queries on pyslash", page.toString(), tab);
  }

  private String table(String id, List<RunData> runs, HttpServletRequest request) {
    return Html.table(id, COLUMNS, runs.stream().map(run -> row(run, request)).collect(Collectors.toList()));
  }

  private List<String> row(RunData run, HttpServletRequest request) {
    EpochData last = SlashStore.epoch(tab.store(), EpochData.key(run.run, run.lastEpoch));
    return List.of(
        link(run, request),
        run.status(),
        run.isOnSpark() ? "plain Spark" : "pyslash",
        Html.escape(operators(run)),
        run.isOnSpark() ? "" : Html.number(run.epochs),
        run.isOnSpark() ? "" : Html.number(run.rows),
        run.isOnSpark() ? "" : Html.number(run.lateRows),
        last == null ? "" : Html.watermark(last.operators.path(0)),
        last == null ? "" : Html.number(last.rowsPerSecond()),
        last == null ? "" : Html.millis(last.allMillis()),
        last == null ? "" : Html.bytes(last.most("pinned_bytes")),
        last == null ? "" : Html.bytes(last.most("spilled_bytes")),
        run.isOnSpark() ? "" : Html.number(run.recoveries),
        Html.time(Figures.whole(run.figures.path("millis"))),
        Html.time(run.lastMillis));
  }

  private static String operators(RunData run) {
    return StreamSupport.stream(run.figures.path("operators").spliterator(), false)
        .map(operator -> operator.path("name").asText() + ": " + operator.path("grouping").asText())
        .collect(Collectors.joining("; "));
  }

  private String reasons(List<RunData> runs, HttpServletRequest request) {
    List<List<String>> rows = new ArrayList<>();
    for (RunData run : runs) {
      JsonNode figures = run.figures;
      rows.add(
          List.of(
              link(run, request),
              Html.escape(figures.path("operator").asText()),
              Html.escape(figures.path("reason").asText()),
              Html.escape(figures.path("help").asText())));
    }
    return Html.table("fallbacks", List.of("Name", "Operator", "Reason", "What would help"), rows);
  }

  private String link(RunData run, HttpServletRequest request) {
    return Html.link(Html.address(request, tab, "/" + SlashTab.PREFIX + "/query/?run=" + run.run), run.name());
  }
}
