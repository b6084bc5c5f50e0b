package io.pyslash.ui;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiConsumer;

/**
 * Of the partitions of topics that an epoch tells of, those that lose rows: some of theirs have been late, or all that they
 * have is older than the watermark, so that more will be.
 */
final class LatePartitions {
  private static final long MICROS = 1000; // in a millisecond
  private static final List<String> COLUMNS =
      List.of(
          "Partition", "Operator", "Input", "Newest event time (UTC)", "Behind the newest of all (ms)", "Late rows",
          "Late rows in all", "Last epoch with rows");

  private LatePartitions() {}

  private static void each(JsonNode operators, BiConsumer<JsonNode, JsonNode> use) {
    for (JsonNode operator : operators) {
      for (JsonNode partition : operator.path("partitions")) {
        if (losesRows(operator, partition)) {
          use.accept(operator, partition);
        }
      }
    }
  }

  private static boolean losesRows(JsonNode operator, JsonNode partition) {
    long newest = Figures.whole(partition.path("newest_ms")) * MICROS;
    return Figures.whole(partition.path("late_rows_in_all")) > 0 || newest < Figures.whole(operator.path("watermark_us"));
  }

  /** A table of them with its heading; empty if there are none. */
  static String table(JsonNode operators) {
    List<List<String>> rows = new ArrayList<>();
    each(operators, (operator, partition) -> rows.add(row(operator, partition)));
    return rows.isEmpty()
        ? ""
        : Html.heading("Partitions of topics that rows come late from (" + rows.size() + ")")
            + Html.table("partitions", COLUMNS, rows);
  }

  private static List<String> row(JsonNode operator, JsonNode partition) {
    List<String> cells = new ArrayList<>();
    cells.add(Html.escape(partition.path("partition").asText()));
    cells.add(Html.number(Figures.number(operator.path("operator"))));
    cells.add(Html.number(Figures.number(partition.path("input"))));
    cells.add(Html.utc(MICROS * Figures.whole(partition.path("newest_ms"))));
    for (String figure : List.of("behind_ms", "late_rows", "late_rows_in_all", "last_epoch")) {
      cells.add(Html.number(Figures.number(partition.path(figure))));
    }
    return cells;
  }

  /** The gauges of them, by what stands behind the query in their names. */
  static Map<String, Double> gauges(JsonNode operators) {
    Map<String, Double> gauges = new TreeMap<>();
    each(operators, (operator, partition) -> {
      String name = "partitions." + SlashMetrics.plain(partition.path("partition").asText()) + ".";
      gauges.merge(name + "lateRows", Figures.number(partition.path("late_rows_in_all")), Double::sum);
      gauges.merge(name + "behindMs", Figures.number(partition.path("behind_ms")), Math::max);
    });
    return gauges;
  }
}
