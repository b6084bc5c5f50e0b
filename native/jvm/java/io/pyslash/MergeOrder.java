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

  final byte[] planText;
  final long[] windows;
  final ArrayList<Block> blocks;

  private MergeOrder(byte[] planText, long[] windows, ArrayList<Block> blocks) {
    this.planText = planText;
    this.windows = windows;
    this.blocks = blocks;
  }

  /** From JSON: `plan`, `windows` (starts, microseconds), `agents` (descriptors), `blocks` (agent's place, head). */
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
      return new MergeOrder(
          told.required("plan").textValue().getBytes(StandardCharsets.US_ASCII), starts, blocks);
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException("no order to merge: " + error.getMessage());
    } catch (IOException error) {
      throw new IllegalArgumentException("a head of a block is not base64: " + error.getMessage());
    }
  }
}
