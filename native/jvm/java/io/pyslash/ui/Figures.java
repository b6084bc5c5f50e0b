package io.pyslash.ui;

import com.fasterxml.jackson.databind.JsonNode;

/** Numbers of events. Those of an event log come from a file, which may hold any: 1e999 is infinite. */
final class Figures {
  // No count, time or number of bytes comes near it, and sums of thousands are finite.
  private static final double MOST = 1e18;

  private Figures() {}

  /** 0 where there is none, or none that anything could have counted. */
  static double number(JsonNode figure) {
    double number = figure.asDouble();
    return Math.abs(number) <= MOST ? number : 0;
  }

  static long whole(JsonNode figure) {
    return Math.round(number(figure));
  }
}
