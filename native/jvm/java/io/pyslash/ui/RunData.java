package io.pyslash.ui;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.spark.util.kvstore.KVIndex;

/**
 * A run of a query in Spark's store of what its UI shows: in memory, or on the History Server's disk. Replaced as a whole
 * whenever something of it changes.
 */
public final class RunData {
  @KVIndex public String run = "";

  /** What the event of its start has told, and that of its fallback if there was one. */
  public JsonNode figures = JsonNodeFactory.instance.objectNode();

  public boolean hasEnded;
  public String failure = "";
  public long epochs;
  public long rows;
  public long lateRows;
  public long recoveries;

  /** The last epoch that the sink has, and when it ended (milliseconds since 1970); -1: none. */
  public long lastEpoch = -1;

  public long lastMillis;

  RunData copy() {
    RunData copy = new RunData();
    copy.run = run;
    copy.figures = figures;
    copy.hasEnded = hasEnded;
    copy.failure = failure;
    copy.epochs = epochs;
    copy.rows = rows;
    copy.lateRows = lateRows;
    copy.recoveries = recoveries;
    copy.lastEpoch = lastEpoch;
    copy.lastMillis = lastMillis;
    return copy;
  }

  String name() {
    String name = figures.path("name").asText();
    return name.isEmpty() ? "(no name)" : name;
  }

  /** Whether it runs, or ran, on plain Spark. */
  boolean isOnSpark() {
    return !figures.path("reason").asText().isEmpty();
  }

  String status() {
    return hasEnded ? failure.isEmpty() ? "FINISHED" : "FAILED" : "RUNNING";
  }
}
