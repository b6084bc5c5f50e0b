package io.pyslash.ui;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.spark.util.kvstore.KVIndex;

/**
 * A run of a query in Spark's store of what its UI shows: in memory, or on the History Server's disk. Replaced as a whole
 * whenever something of it changes.
 */
public final class RunData {
  private static final int SHOWN_OF_ID = 8;

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

  /** As the job names the query, or else the first part of its id, which Spark's log has too. */
  String name() {
    String name = figures.path("name").asText();
    String id = figures.path("id").asText(run);
    return name.isEmpty() ? id.substring(0, Math.min(id.length(), SHOWN_OF_ID)) : name;
  }

  /** Whether it runs, or ran, on plain Spark. */
  boolean isOnSpark() {
    return !figures.path("reason").asText().isEmpty();
  }

  String status() {
    return hasEnded ? failure.isEmpty() ? "FINISHED" : "FAILED" : "RUNNING";
  }
}
