package io.pyslash.merge;

import com.fasterxml.jackson.databind.JsonNode;
import io.pyslash.agent.AgentOrder;
import io.pyslash.core.Json;
import io.pyslash.core.SlashException;
import io.pyslash.shim.DriverAnswers;
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

  /**
   * Where a task that has to read all blocks asks for them: the name of what the driver answers by, and the number of the
   * version that has them. The order has those that its epoch has written, which is all that others read.
   */
  private record Rest(String name, String version) implements Serializable {}

  /** How blocks are read that lie out of this JVM's sight: under a query's token, by its agent, each within a time. */
  record ReadOptions(byte[] query, byte[] token, String transport, int timeoutSeconds, AgentOrder agent)
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
  private final Rest rest; // null: these are all
  final ReadOptions reading;
  public final Home home; // null: windows are merged from blocks

  /** Of the state that homes are brought to; empty where there are none, and tasks read nothing twice. */
  String version() {
    return home == null ? "" : new String(home.version(), StandardCharsets.US_ASCII);
  }

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
    blocks = blocks(told);
    JsonNode where = told.required("rest");
    rest = where.isNull() ? null : new Rest(where.required(0).textValue(), where.required(1).textValue());
    reading = reading(told.required("reading"));
    home = home(told.required("home"));
  }

  /**
   * From JSON: `plan`, `windows` (starts, microseconds), `changed_in` (an epoch, of whose groups alone there are rows,
   * or null), `panes` (first, end), `agents` (descriptors), `blocks` (agent's place, head), `rest` (the driver's name for
   * the other blocks, their version; null: there are none), `reading`, `home` (or null).
   */
  public static MergeSpec parse(String json) {
    try {
      return new MergeSpec(Json.parse(json));
    } catch (IOException error) {
      throw new IllegalArgumentException("a head of a block is not base64: " + error.getMessage());
    }
  }

  /** Every block, in a task: the driver is asked for those that the order does not have. */
  List<Block> all() {
    if (rest == null) {
      return blocks;
    }
    String answer;
    try {
      answer = DriverAnswers.ask(rest.name, rest.version);
    } catch (Exception failure) { // of Spark's, which declares none
      throw new SlashException(
          "AgentError", "the driver does not say which blocks there are as of epoch " + home.epoch() + ": " + failure);
    }
    if (answer.isEmpty()) {
      throw new SlashException(
          "InvalidRequestError",
          "rows of epoch "
              + home.epoch()
              + " are read after the query has gone on, and nobody keeps their groups any more; read or cache them before"
              + " the function of foreachBatch returns");
    }
    try {
      return blocks(Json.parse(answer));
    } catch (IOException error) {
      throw new IllegalStateException("the driver's answer is no list of blocks: " + error.getMessage());
    }
  }

  private static ArrayList<Block> blocks(JsonNode told) throws IOException {
    List<Peer> agents = new ArrayList<>();
    for (JsonNode agent : told.required("agents")) {
      agents.add(new Peer(agent.textValue(), Json.parse(agent.textValue()).required("arena_bytes").longValue()));
    }
    ArrayList<Block> blocks = new ArrayList<>();
    for (JsonNode block : told.required("blocks")) {
      blocks.add(new Block(agents.get(block.required(0).intValue()), block.required(1).binaryValue()));
    }
    return blocks;
  }

  private static ReadOptions reading(JsonNode told) throws IOException {
    return new ReadOptions(
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
