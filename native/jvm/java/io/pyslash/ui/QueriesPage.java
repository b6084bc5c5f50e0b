package io.pyslash.ui;

import jakarta.servlet.http.HttpServletRequest;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.spark.ui.WebUIPage;
import scala.collection.immutable.Seq;
import scala.xml.Node;

/** The tab's first page: the queries that run and those that have ended, and why some of them are on plain Spark. */
final class QueriesPage extends WebUIPage {
  private static final List<String> COLUMNS =
      List.of(
          "Name", "Status", "Runs on", "Covered", "Epochs", "Rows", "Late rows", "Rows/s, last epoch", "Last epoch (ms)",
          "Pinned", "Spilled", "Agents", "Recoveries", "Started", "Last epoch at");

  private final SlashTab tab;

  QueriesPage(SlashTab tab) {
    super("");
    this.tab = tab;
  }

  @Override
  public Seq<Node> render(HttpServletRequest request) {
    List<RunData> runs = new ArrayList<>(SlashStore.runs(tab.store()));
    runs.sort(Comparator.comparingLong((RunData run) -> Figures.count(run.figures, "millis")).reversed());
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
    EpochData shown = last == null ? new EpochData() : last;
    return List.of(
        link(run, request),
        run.status(),
        run.isOnSpark() ? "plain Spark" : "pyslash",
        Html.escape(covered(run)),
        Html.number(run.epochs),
        Html.number(run.rows),
        Html.number(run.lateRows),
        Html.number(shown.rowsPerSecond()),
        Html.millis(shown.allMillis()),
        Html.bytes(shown.most("pinned_bytes")),
        Html.bytes(shown.most("spilled_bytes")),
        Html.number(shown.most("agents")),
        Html.number(run.recoveries),
        Html.time(Figures.count(run.figures, "millis")),
        Html.time(run.lastMillis));
  }

  private static String covered(RunData run) {
    return Figures.maps(run.figures, "operators").stream()
        .map(operator -> Figures.text(operator, "name") + ": " + Figures.text(operator, "grouping"))
        .collect(Collectors.joining("; "));
  }

  private String reasons(List<RunData> runs, HttpServletRequest request) {
    List<List<String>> rows = new ArrayList<>();
    for (RunData run : runs) {
      Map<String, Object> figures = run.figures;
      rows.add(
          List.of(
              link(run, request),
              Html.escape(Figures.text(figures, "operator")),
              Html.escape(Figures.text(figures, "reason")),
              Html.escape(Figures.text(figures, "help"))));
    }
    return Html.table("fallbacks", List.of("Name", "Operator", "Reason", "What would help"), rows);
  }

  private String link(RunData run, HttpServletRequest request) {
    return Html.link(Html.address(request, tab, "/" + SlashTab.PREFIX + "/query/?run=" + run.run), run.name());
  }
}
