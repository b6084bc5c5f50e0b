package io.pyslash.ui;

import java.util.List;
import java.util.Map;

/** Reading what Python has written as JSON: what is missing is 0 or empty, for an event log may be of another release. */
final class Figures {
  private Figures() {}

  static double number(Map<String, Object> figures, String name) {
    return figures.get(name) instanceof Number number ? number.doubleValue() : 0;
  }

  static long count(Map<String, Object> figures, String name) {
    return figures.get(name) instanceof Number number ? number.longValue() : 0;
  }

  static String text(Map<String, Object> figures, String name) {
    return figures.get(name) instanceof String text ? text : "";
  }

  static boolean flag(Map<String, Object> figures, String name) {
    return Boolean.TRUE.equals(figures.get(name));
  }

  @SuppressWarnings("unchecked")
  static Map<String, Object> map(Map<String, Object> figures, String name) {
    return figures.get(name) instanceof Map<?, ?> map ? (Map<String, Object>) map : Map.of();
  }

  @SuppressWarnings("unchecked")
  static List<Map<String, Object>> maps(Map<String, Object> figures, String name) {
    return figures.get(name) instanceof List<?> list ? (List<Map<String, Object>>) list : List.of();
  }

  /** The sum of a map's values. */
  static long total(Map<String, Object> figures, String name) {
    return map(figures, name).values().stream().mapToLong(value -> ((Number) value).longValue()).sum();
  }
}
