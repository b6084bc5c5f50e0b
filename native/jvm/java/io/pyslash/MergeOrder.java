package io.pyslash;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** What the driver tells every task of a merge: the windows, and the blocks that hold their panes. */
final class MergeOrder implements Serializable {
  private static final long serialVersionUID = 1L;

  /** A block's head, and the descriptor of the agent in whose arena it lies. */
  record Block(String agent, byte[] head) implements Serializable {}

  /**
   * Groups are kept from epoch to epoch where they are merged: of which query, the states before and after this epoch,
   * the epoch, and the end of the windows that are over by then; of sessions also the pane that holds them, and the end of
   * those that are emitted.
   */
  record Home(
      byte[] query, byte[] before, byte[] version, long epoch, long evictedMicros, long pane, long closingMicros)
      implements Serializable {}

  final byte[] planText;
  final long[] windows;
  final long changedIn;
  final ArrayList<Block> blocks;
  final Home home; // null: windows are merged from blocks

  private MergeOrder(byte[] planText, long[] windows, long changedIn, ArrayList<Block> blocks, Home home) {
    this.planText = planText;
    this.windows = windows;
    this.changedIn = changedIn;
    this.blocks = blocks;
    this.home = home;
  }

  /**
   * From JSON: `plan`, `windows` (starts, microseconds), `changed_in` (an epoch, of whose groups alone there are rows,
   * or null), `agents` (descriptors), `blocks` (agent's place, head), `home` (or null).
   */
  static MergeOrder parse(String json) {
    JsonNode told;
    try {
      told = new ObjectMapper().readTree(json);
      List<String> agents = new ArrayList<>();
      told.required("agents").forEach(agent -> agents.add(agent.textValue()));
      ArrayList<Block> blocks = new ArrayList<>();
      for (JsonNode block : told.required("blocks")) {
        blocks.add(new Block(agents.get(block.required(0).intValue()), block.required(1).binaryValue()));
      }
      JsonNode windows = told.required("windows");
      long[] starts = new long[windows.size()];
      for (int i = 0; i < starts.length; i++) {
        starts[i] = windows.required(i).longValue();
      }
      JsonNode changedIn = told.required("changed_in");
      return new MergeOrder(
          told.required("plan").textValue().getBytes(StandardCharsets.US_ASCII),
          starts,
          changedIn.isNull() ? -1 : changedIn.longValue(),
          blocks,
          home(told.required("home")));
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException("no order to merge: " + error.getMessage());
    } catch (IOException error) {
      throw new IllegalArgumentException("a head of a block is not base64: " + error.getMessage());
    }
  }

  byte[][] heads() {
    return blocks.stream().map(Block::head).toArray(byte[][]::new);
  }

  /** Where the blocks' arenas are mapped in this JVM, block by block. */
  long[] arenas() {
    return blocks.stream().mapToLong(block -> PeerArenas.of(block.agent())).toArray();
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
