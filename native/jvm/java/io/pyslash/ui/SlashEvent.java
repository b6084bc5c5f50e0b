package io.pyslash.ui;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.spark.scheduler.SparkListenerEvent;

/**
 * What pyslash tells on Spark's listener bus, and so in the event log. Spark writes and reads it by its properties.
 *
 * <p>`kind` is `query` (a query has started, on pyslash or on plain Spark), `epoch` (it has finished one) or `left` (it
 * runs on plain Spark from here on). The figures are as `pyslash/driver/watch.py` posts them; `run` is in all of them.
 */
public final class SlashEvent implements SparkListenerEvent {
  static final String QUERY = "query";
  static final String EPOCH = "epoch";
  static final String LEFT = "left";

  public final String kind;
  public final JsonNode figures;

  @JsonCreator
  public SlashEvent(@JsonProperty("kind") String kind, @JsonProperty("figures") JsonNode figures) {
    this.kind = kind == null ? "" : kind;
    this.figures = figures == null || !figures.isObject() ? JsonNodeFactory.instance.objectNode() : figures;
  }

  String run() {
    return figures.path("run").asText();
  }
}
