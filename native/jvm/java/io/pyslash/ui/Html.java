package io.pyslash.ui;

import com.fasterxml.jackson.databind.JsonNode;
import io.pyslash.shim.PageHeader;
import jakarta.servlet.http.HttpServletRequest;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.spark.ui.SparkUITab;
import org.apache.spark.ui.UIUtils;
import scala.Function0;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.xml.Node;
import scala.xml.Unparsed;

/** Pieces of a page in the looks of Spark's UI. What is called text is escaped here; cells and contents are HTML. */
final class Html {
  private static final long NONE = Long.MIN_VALUE;
  private static final List<String> UNITS = List.of("B", "KiB", "MiB", "GiB", "TiB");
  private static final Pattern MEASURE = Pattern.compile("([0-9.]+) (%|" + String.join("|", UNITS) + ")");
  private static final DateTimeFormatter UTC =
      DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss", Locale.ROOT).withZone(ZoneOffset.UTC);

  private Html() {}

  static String escape(String text) {
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\"", "&quot;").replace(
        "'", "&#39;");
  }

  /** A table whose rows have a cell of HTML for each header. */
  static String table(String id, List<String> headers, List<List<String>> rows) {
    String head = headers.stream().map(header -> "<th>" + escape(header) + "</th>").collect(Collectors.joining());
    String body =
        rows.stream()
            .map(row -> row.stream().map(Html::cell).collect(Collectors.joining()))
            .collect(Collectors.joining("</tr><tr>", "<tr>", "</tr>"));
    return "<div class=\"table-responsive\"><table id=\"" + id
        + "\" class=\"table table-bordered table-sm table-striped sortable\"><thead><tr>" + head + "</tr></thead><tbody>"
        + (rows.isEmpty() ? "" : body) + "</tbody></table></div>";
  }

  /** Spark's script orders cells by what they say, unless they have a number beside it. */
  private static String cell(String content) {
    Matcher measure = MEASURE.matcher(content);
    if (!measure.matches()) {
      return "<td>" + content + "</td>";
    }
    double number = Double.parseDouble(measure.group(1)) * Math.pow(1024, Math.max(0, UNITS.indexOf(measure.group(2))));
    return String.format(Locale.ROOT, "<td sorttable_customkey=\"%.1f\">%s</td>", number, content);
  }

  /** A list of names and what there is of each. */
  static String facts(List<List<String>> facts) {
    return facts.stream()
        .map(fact -> "<li><strong>" + escape(fact.get(0)) + ":</strong> " + escape(fact.get(1)) + "</li>")
        .collect(Collectors.joining("", "<ul class=\"list-unstyled\">", "</ul>"));
  }

  static String heading(String text) {
    return "<h4>" + escape(text) + "</h4>";
  }

  static String link(String address, String text) {
    return "<a href=\"" + escape(address) + "\">" + escape(text) + "</a>";
  }

  static String number(double number) {
    return String.format(Locale.ROOT, "%,d", Math.round(number));
  }

  static String millis(double millis) {
    return String.format(Locale.ROOT, millis < 10 ? "%.1f" : "%,.0f", millis);
  }

  static String bytes(double bytes) {
    int unit = 0;
    while (bytes >= 1024 && unit < UNITS.size() - 1) {
      bytes /= 1024;
      unit++;
    }
    return String.format(Locale.ROOT, unit == 0 || bytes >= 100 ? "%.0f %s" : "%.1f %s", bytes, UNITS.get(unit));
  }

  /** A text that may be one long word: it is broken where its column ends. */
  static String wrapped(String text) {
    return "<span style=\"overflow-wrap: anywhere\">" + escape(text) + "</span>";
  }

  /** A time in microseconds since 1970; a dash where there is none. */
  static String utc(long micros) {
    return micros == NONE ? "-" : UTC.format(Instant.EPOCH.plus(micros, ChronoUnit.MICROS));
  }

  /** An operator's watermark as of an epoch, as Spark's progress writes times; 1970 until Spark has seen an event time. */
  static String watermark(JsonNode figures) {
    long micros = figures.path("watermark_us").asLong(NONE);
    return micros == NONE ? "" : utc(micros) + held(figures) + debt(figures);
  }

  /** The records that it waits for, if newer ones have been read before them. */
  private static String debt(JsonNode figures) {
    double debt = Figures.number(figures.path("debt"));
    return debt == 0 ? "" : "<br/>behind " + number(debt) + " skipped";
  }

  /** The rows of an epoch, which share of the records they are, and how many more the topics had, if there is such. */
  static String rows(JsonNode figures) {
    double rate = figures.path("sample_rate").asDouble(1);
    double behind = Figures.number(figures.path("behind"));
    String left = behind == 0 ? "" : "<br/>" + number(behind) + " behind";
    String taken = rate == 1 ? "" : String.format(Locale.ROOT, "<br/>%.1f %% taken", 100 * rate);
    return number(Figures.number(figures.path("rows"))) + taken + left;
  }

  /** The late rows of an epoch, and those of each side of a join. */
  static String late(JsonNode figures) {
    JsonNode sides = figures.path("late_by_input");
    double late = Figures.number(figures.path("late_rows"));
    String bySide =
        sides.size() < 2 || late == 0
            ? ""
            : "<br/>left " + number(Figures.number(sides.path(0))) + ", right " + number(Figures.number(sides.path(1)));
    return number(late) + bySide;
  }

  /** The input that the watermark is of, if there are several. */
  private static String held(JsonNode figures) {
    String source = figures.path("held_by").asText();
    return source.isEmpty() ? "" : "<br/>" + escape("by " + source + ", for " + millis(Figures.number(figures.path("held_ms"))) + " ms");
  }

  static String time(long millis) {
    return millis > 0 ? UIUtils.formatDate(millis) : "";
  }

  /** An address below the UI's root, as it is to be linked from a page. */
  static String address(HttpServletRequest request, SparkUITab tab, String path) {
    return UIUtils.prependBaseUri(request, tab.basePath(), path);
  }

  /** The whole page, with the tabs above. */
  static Seq<Node> page(HttpServletRequest request, String title, String content, SparkUITab tab) {
    Function0<Seq<Node>> nodes = () -> CollectionConverters.asScala(List.<Node>of(new Unparsed(content))).toSeq();
    return PageHeader.page(request, title, nodes, tab);
  }
}
