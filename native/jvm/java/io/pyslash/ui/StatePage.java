package io.pyslash.ui;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.servlet.http.HttpServletRequest;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.spark.ui.WebUIPage;
import scala.collection.immutable.Seq;
import scala.xml.Node;

/**
 * The state of one operator of a query that runs: how large it is, and which keys have the most of it. Python reads it when
 * the page is loaded (`pyslash/driver/state_answers.py`).
 */
final class StatePage extends WebUIPage {
  private static final String NAME = "state";

  private final ObjectMapper json = new ObjectMapper();
  private final SlashTab tab;

  StatePage(SlashTab tab) {
    super(NAME);
    this.tab = tab;
  }

  static String address(HttpServletRequest request, SlashTab tab, RunData run, int operator) {
    return Html.address(request, tab, "/" + SlashTab.PREFIX + "/" + NAME + "/?run=" + run.run + "&operator=" + operator);
  }

  @Override
  public Seq<Node> render(HttpServletRequest request) {
    String name = request.getParameter("run");
    RunData run = name == null ? null : SlashStore.run(tab.store(), name);
    if (run == null) {
      return told(request, "No such run", "This run is not known, or no longer: the last ones are kept.");
    }
    int operator = place(request.getParameter("operator"));
    if (operator < 0 || operator >= run.figures.path("operators").size()) {
      return told(request, "No such operator", "This run has no stateful operator of this number.");
    }
    String title = "State of query " + run.name() + ", operator " + operator;
    if (!tab.hasState(run)) {
      return told(request, title, "The query does not run any more. Its state, if its checkpoint is there, is shown by: "
          + "pyslash state keys CHECKPOINT");
    }
    boolean showsKeys = run.figures.path("settings").path("watch.keys").asBoolean();
    try {
      JsonNode sizes = ask(run, operator, showsKeys);
      return sizes.has("error")
          ? told(request, title, sizes.path("error").asText())
          : Html.page(request, title, content(sizes, showsKeys), tab);
    } catch (JsonProcessingException | RuntimeException unanswered) {
      return told(request, title, "The driver's Python does not answer: " + unanswered);
    }
  }

  private static int place(String operator) {
    return operator != null && operator.matches("[0-9]{1,4}") ? Integer.parseInt(operator) : -1;
  }

  private Seq<Node> told(HttpServletRequest request, String title, String text) {
    return Html.page(request, title, "<p id=\"told\">" + Html.escape(text) + "</p>", tab);
  }

  private JsonNode ask(RunData run, int operator, boolean showsKeys) throws JsonProcessingException {
    Map<String, Object> question =
        Map.of("query", run.figures.path("id").asText(), "operator", operator, "shows_keys", showsKeys);
    return json.readTree(tab.answers().apply(json.writeValueAsString(question)));
  }

  private static String content(JsonNode sizes, boolean showsKeys) {
    StringBuilder page = new StringBuilder(Html.facts(facts(sizes)));
    if (!sizes.path("slices").isEmpty()) {
      page.append(Html.heading(
          "Slices of " + sizes.path("slices_of").asText() + " (the largest of " + count(sizes, "slice_count") + ")"));
      page.append(Html.table("slices", List.of("Begins (UTC)", "Bytes", "Share", "Parts"), slices(sizes)));
    }
    page.append(heading(sizes.path("rows_are").asText(), count(sizes, "other_rows")));
    page.append(Html.table("by-rows", headers(sizes), keys(sizes, "by_rows", showsKeys)));
    page.append(heading("bytes", bytes(sizes, "other_bytes")));
    page.append(Html.table("by-bytes", headers(sizes), keys(sizes, "by_bytes", showsKeys)));
    return page.toString();
  }

  private static String heading(String of, String others) {
    return Html.heading("Keys with the most " + of + " (any other has at most " + others + ")");
  }

  private static List<List<String>> facts(JsonNode sizes) {
    List<List<String>> facts = new ArrayList<>();
    facts.add(List.of("Operator", sizes.path("operator").asText()));
    facts.add(List.of("As of epoch", sizes.path("epoch").asText()));
    facts.add(List.of("Watermark (UTC)", Html.utc(sizes.path("watermark_us").asLong())));
    facts.add(List.of("State", bytes(sizes, "bytes") + " in " + count(sizes, "parts") + " parts"));
    String read = sizes.path("read_bytes").asLong() == sizes.path("bytes").asLong()
        ? "all of it"
        : bytes(sizes, "read_bytes") + " in " + count(sizes, "read_parts") + " parts: there was no time for more";
    facts.add(List.of("Read for this page", read));
    return facts;
  }

  private static List<List<String>> slices(JsonNode sizes) {
    return StreamSupport.stream(sizes.path("slices").spliterator(), false)
        .map(one -> List.of(
            Html.utc(one.path("start_us").asLong()), bytes(one, "bytes"), share(one, "bytes", sizes, "bytes"),
            count(one, "parts")))
        .collect(Collectors.toList());
  }

  private static List<String> headers(JsonNode sizes) {
    List<String> headers = new ArrayList<>();
    sizes.path("key_names").forEach(name -> headers.add(name.asText()));
    headers.addAll(List.of("Rows", "Share of rows", "Bytes", "Share of bytes", "Parts"));
    return headers;
  }

  private static List<List<String>> keys(JsonNode sizes, String name, boolean showsKeys) {
    List<List<String>> rows = new ArrayList<>();
    for (JsonNode one : sizes.path(name)) {
      List<String> cells = new ArrayList<>();
      for (int place = 0; place < sizes.path("key_names").size(); place++) {
        cells.add(showsKeys ? Html.wrapped(one.path("key").path(place).asText()) : "(not shown)");
      }
      cells.addAll(
          List.of(
              count(one, "rows"), share(one, "rows", sizes, "read_rows"), bytes(one, "bytes"),
              share(one, "bytes", sizes, "bytes"), count(one, "parts")));
      rows.add(cells);
    }
    return rows;
  }

  private static String count(JsonNode figures, String name) {
    return Html.number(Figures.number(figures.path(name)));
  }

  private static String bytes(JsonNode figures, String name) {
    return Html.bytes(Figures.number(figures.path(name)));
  }

  private static String share(JsonNode figures, String name, JsonNode sizes, String whole) {
    double of = Math.max(1, Figures.number(sizes.path(whole)));
    return String.format(Locale.ROOT, "%.1f %%", 100 * Figures.number(figures.path(name)) / of);
  }
}
