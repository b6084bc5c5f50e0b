package io.pyslash.ui;

import java.util.List;
import java.util.Locale;
import java.util.function.DoubleFunction;

/** A bar for each epoch, of one or several values on top of each other, as an SVG: nothing to load and no script. */
final class Chart {
  private static final int WIDTH = 1000;
  private static final int HEIGHT = 110;
  private static final int LEFT = 80;
  private static final int BOTTOM = 20;
  private static final int TOP = 36;
  private static final int LINES = 4;
  private static final int MOST_LABELS = 12;
  private static final double OUTLIER = 4;

  /** One colour of the bars. */
  record Series(String name, String colour) {}

  /** The values of an epoch, one of each series. */
  record Bar(long epoch, double[] values) {
    double height() {
      double height = 0;
      for (double value : values) {
        height += value;
      }
      return height;
    }
  }

  /** What values are, and so how they are written and where an axis of them ends. */
  enum Unit {
    COUNT(Html::number),
    MILLIS(Html::millis),
    BYTES(Html::bytes);

    private final DoubleFunction<String> text;

    Unit(DoubleFunction<String> text) {
      this.text = text;
    }

    /** The next number of the form 1, 2, 4 or 8 times a power of ten, whose quarters are short; of bytes, of two. */
    double above(double most) {
      double power = 1;
      double step = this == BYTES ? 2 : 10;
      while (power * step <= most && power < Double.MAX_VALUE / step) {
        power *= step;
      }
      for (int times : new int[] {1, 2, 4, 8}) {
        if (most <= times * power) {
          return times * power;
        }
      }
      return step * power;
    }
  }

  private Chart() {}

  static String of(String id, List<Series> series, List<Bar> bars, Unit unit) {
    double top = unit.above(most(bars));
    StringBuilder svg = new StringBuilder();
    svg.append("<svg id=\"").append(id).append("\" role=\"img\" width=\"100%\" viewBox=\"0 0 ").append(WIDTH);
    svg.append(' ').append(TOP + HEIGHT + BOTTOM).append("\" font-size=\"11\" font-family=\"sans-serif\">");
    int x = LEFT;
    for (Series one : series) {
      rect(svg, x, 4, 10, 10, one.colour, null);
      label(svg, x + 14, 13, "start", one.name);
      x += 30 + 7 * one.name.length();
    }
    for (int line = 0; line <= LINES; line++) {
      double y = TOP + HEIGHT - (double) HEIGHT * line / LINES;
      svg.append(String.format(
          Locale.ROOT, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#8888\" stroke-width=\"0.5\"/>",
          LEFT, WIDTH, y, y));
      label(svg, LEFT - 6, y + 4, "end", unit.text.apply(top * line / LINES));
    }
    double step = (double) (WIDTH - LEFT) / Math.max(bars.size(), 20);
    int every = Math.max(1, (bars.size() + MOST_LABELS - 1) / MOST_LABELS);
    for (int index = 0; index < bars.size(); index++) {
      Bar bar = bars.get(index);
      double left = LEFT + step * index;
      double y = TOP + HEIGHT;
      for (int place = 0; place < series.size(); place++) {
        double height = Math.min(top > 0 ? HEIGHT * bar.values[place] / top : 0, y - TOP);
        y -= height;
        if (height > 0) {
          String told = "epoch " + bar.epoch + ": " + series.get(place).name + " " + unit.text.apply(bar.values[place]);
          rect(svg, left + step * 0.1, y, step * 0.8, height, series.get(place).colour, told);
        }
      }
      if (bar.height() > top) {
        label(svg, left + step / 2, TOP - 3, "middle", unit.text.apply(bar.height()));
      }
      if (index % every == 0) {
        label(svg, left + step / 2, TOP + HEIGHT + 14, "middle", Long.toString(bar.epoch));
      }
    }
    return svg.append("</svg>").toString();
  }

  /** The height that fits all bars but few: the first epoch starts agents and JVMs, and would flatten all others. */
  private static double most(List<Bar> bars) {
    double[] heights = bars.stream().mapToDouble(Bar::height).sorted().toArray();
    if (heights.length == 0) {
      return 0;
    }
    double usual = heights[(heights.length - 1) * 9 / 10];
    double most = heights[heights.length - 1];
    return usual > 0 && most > OUTLIER * usual ? OUTLIER / 2 * usual : most;
  }

  private static void rect(
      StringBuilder svg, double x, double y, double width, double height, String colour, String told) {
    svg.append(String.format(
        Locale.ROOT, "<rect x=\"%.1f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\">", x, y, width, height,
        colour));
    if (told != null) {
      svg.append("<title>").append(Html.escape(told)).append("</title>");
    }
    svg.append("</rect>");
  }

  private static void label(StringBuilder svg, double x, double y, String anchor, String text) {
    svg.append(String.format(
        Locale.ROOT, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"currentColor\">%s</text>", x, y, anchor,
        Html.escape(text)));
  }
}
