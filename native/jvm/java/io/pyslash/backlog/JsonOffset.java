package io.pyslash.backlog;

import org.apache.spark.sql.execution.streaming.Offset;

/** An offset of a source that is read in another order: what its JSON says, to sources of both kinds. */
final class JsonOffset extends Offset {
  private final String json;

  JsonOffset(String json) {
    this.json = json;
  }

  @Override
  public String json() {
    return json;
  }
}
