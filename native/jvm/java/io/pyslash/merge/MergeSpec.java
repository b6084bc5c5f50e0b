package io.pyslash.merge;

import com.fasterxml.jackson.databind.JsonNode;
import io.pyslash.agent.AgentOrder;
import io.pyslash.core.Json;
import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** What the driver tells every task of a merge: the windows, and the blocks that hold their panes. */
public final class MergeSpec implements Serializable {
  private static final long serialVersionUID = 1L;

  /** An agent that holds blocks. */
  record Peer(String descriptor, long arenaBytes) implements Serializable {}

  /** A block's head, and the agent that holds it. */
  record Block(Peer agent, byte[] head) implements Serializable {}

  /** How blocks are read that lie out of this JVM's sight: under a query's token, by its agent, each within a time. */
  record Reading(byte[] query, byte[] token, String transport, int timeoutSeconds, AgentOrder agent)
      implements Serializable {
    /** Whether blocks are read where they lie, if they are within sight. */
    boolean inPlace() {
      return transport.equals("auto") || transport.equals("shm");
    }
  }

  /**
   * Groups are kept from epoch to epoch where they are merged: of which query, the states before and after this epoch,
   * the epoch, and the end of the windows that are over by then; of sessions also the pane that holds them, and the end of
   * those that are emitted.
   */
  public record Home(
      byte[] query, byte[] before, byte[] version, long epoch, long evictedMicros, long pane, long closingMicros)
      implements Serializable {}

  public final byte[] planText;
  final long[] windows;
  final long changedIn;
  final long paneLo; // panes that are read start here or later
  final long paneHi; // and before this
  final ArrayList<Block> blocks;
  final Reading reading;
  public final Home home; // null: windows are merged from blocks

  private MergeSpec(JsonNode told) throws IOException {
    planText = told.required("plan").textValue().getBytes(StandardCharsets.US_ASCII);
    JsonNode starts = told.required("windows");
    windows = new long[starts.size()];
    for (int i = 0; i < windows.length; i++) {
      windows[i] = starts.required(i).longValue();
    }
    JsonNode epoch = told.required("changed_in");
    changedIn = epoch.isNull() ? -1 : epoch.longValue();
    paneLo = told.required("panes").required(0).longValue();
    paneHi = told.required("panes").required(1).longValue();
    List<Peer> agents = new ArrayList<>();
    for (JsonNode agent : told.required("agents")) {
      agents.add(new Peer(agent.textValue(), Json.parse(agent.textValue()).required("arena_bytes").longValue()));
    }
    blocks = new ArrayList<>();
    for (JsonNode block : told.required("blocks")) {
      blocks.add(new Block(agents.get(block.required(0).intValue()), block.required(1).binaryValue()));
    }
    reading = reading(told.required("reading"));
    home = home(told.required("home"));
  }

  /**
   * From JSON: `plan`, `windows` (starts, microseconds), `changed_in` (an epoch, of whose groups alone there are rows,
   * or null), `panes` (first, end), `agents` (descriptors), `blocks` (agent's place, head), `reading`, `home` (or null).
   */
  public static MergeSpec parse(String json) {
    try {
      return new MergeSpec(Json.parse(json));
    } catch (IOException error) {
      throw new IllegalArgumentException("a head of a block is not base64: " + error.getMessage());
    }
  }

  private static Reading reading(JsonNode told) throws IOException {
    return new Reading(
        told.required("query").binaryValue(),
        told.required("token").binaryValue(),
        told.required("transport").textValue(),
        told.required("timeout_seconds").intValue(),
        AgentOrder.of(told.required("agent")));
  }

  private static Home home(JsonNode told) throws IOException {
    return told.isNull()
        ? null
        : new Home(
            told.required("query").binaryValue(),
            told.required("before").binaryValue(),
            told.required("version").binaryValue(),
            told.required("epoch").longValue(),
            told.required("evicted_us").longValue(),
            told.required("pane").longValue(),
            told.required("closing_us").longValue());
  }
}
