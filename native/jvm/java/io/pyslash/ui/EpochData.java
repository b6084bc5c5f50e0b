package io.pyslash.ui;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.util.stream.DoubleStream;
import java.util.stream.StreamSupport;
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
  public JsonNode operators = JsonNodeFactory.instance.arrayNode();

  static String key(String run, long epoch) {
    return String.format("%s/%016d", run, epoch);
  }

  /** Milliseconds of the micro-batch, as far as they are known. */
  double allMillis() {
    return Math.max(triggerMillis, wallMillis);
  }

  /** Rows of the first operator: of the query's input, unless it has aggregations side by side. */
  long rows() {
    return Figures.whole(operators.path(0).path("rows"));
  }

  double rowsPerSecond() {
    return allMillis() > 0 ? rows() * 1000 / allMillis() : 0;
  }

  /** The sum over operators. */
  double sum(String name) {
    return each(name).sum();
  }

  /** The largest of the operators': of what is an agent's, whichever operators it serves. */
  double most(String name) {
    return each(name).max().orElse(0);
  }

  private DoubleStream each(String name) {
    return StreamSupport.stream(operators.spliterator(), false).mapToDouble(figures -> Figures.number(figures.path(name)));
  }
}
