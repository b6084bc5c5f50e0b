package io.pyslash.ui;

import java.util.List;
import java.util.Map;
import org.apache.spark.util.kvstore.KVIndex;

/** An epoch of a run, in the same store as {@link RunData}. */
public final class EpochData {
  /** Sorted by run and epoch. */
  @KVIndex public String key = "";

  public long epoch;

  /** When it ended (milliseconds since 1970), and how long it took within pyslash. */
  public long millis;

  public double wallMillis;

  /** How long Spark's micro-batch took in all; 0 until Spark has told. */
  public long triggerMillis;

  /** The figures of each stateful operator, as `pyslash.progress` has them. */
  public List<Map<String, Object>> operators = List.of();

  static String key(String run, long epoch) {
    return String.format("%s/%016d", run, epoch);
  }

  /** Milliseconds of the micro-batch, as far as they are known. */
  double allMillis() {
    return Math.max(triggerMillis, wallMillis);
  }

  /** Rows that the query has read: those of operators that read no other's rows would do, but the first always does. */
  long rows() {
    return operators.isEmpty() ? 0 : Figures.count(operators.get(0), "rows");
  }

  double rowsPerSecond() {
    return allMillis() > 0 ? rows() * 1000 / allMillis() : 0;
  }

  /** The sum over operators. */
  double sum(String name) {
    return operators.stream().mapToDouble(figures -> Figures.number(figures, name)).sum();
  }

  /** The largest of the operators': of what is an agent's, whichever operators it serves. */
  double most(String name) {
    return operators.stream().mapToDouble(figures -> Figures.number(figures, name)).max().orElse(0);
  }
}
