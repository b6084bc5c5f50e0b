package io.pyslash.merge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.pyslash.agent.Agent;
import io.pyslash.agent.AgentChannel;
import io.pyslash.agent.AgentProcess;
import io.pyslash.core.Native;
import java.util.List;

/** Memory that this executor's agent brings blocks of other agents to; it is gone once closed, or with this JVM. */
final class Landing implements AutoCloseable {
  private static final ObjectMapper JSON = new ObjectMapper();
  // With the numbers of a block each, and the agent's descriptor, they take less than the 64 KiB of a request.
  private static final int RANGES_A_CALL = 512;
  private static final int EXTRA_SECONDS = 10;

  /**
   * A block of another agent: its offset there, its place here, and offset in the block and length of each range to bring.
   */
  record Block(long offset, long place, long[] ranges) {}

  private final AgentChannel channel;
  private final long start;
  private final int timeoutSeconds;

  /** The handle of the memory, as that of an arena. */
  final long arena;

  /** Room for so many bytes; what is not brought takes no memory. */
  Landing(MergeOrder.Reading reading, long bytes) {
    Agent agent = AgentProcess.ensure(reading.agent());
    timeoutSeconds = reading.timeoutSeconds();
    channel = new AgentChannel(agent, reading.query(), reading.token(), timeoutSeconds);
    try {
      ObjectNode request = JSON.createObjectNode().put("bytes", bytes).put("timeout_seconds", timeoutSeconds);
      JsonNode made = channel.call("gather", request, timeoutSeconds);
      start = made.required("start").longValue();
      arena = agent.openFile(made.required("fd").intValue());
    } catch (RuntimeException failure) {
      channel.close();
      throw failure;
    }
  }

  /** Where a place is in the memory. */
  long at(long place) {
    return start + place;
  }

  /** Brings ranges of an agent's blocks, and counts their bytes. */
  void bring(String agent, String transport, List<Block> blocks, MergeCounts.Bytes counts) {
    ArrayNode asked = JSON.createArrayNode();
    int ranges = 0;
    for (Block block : blocks) {
      ArrayNode of = null;
      for (int i = 0; i < block.ranges.length; i += 2) {
        if (ranges == RANGES_A_CALL) {
          bring(agent, transport, asked, counts);
          asked = JSON.createArrayNode();
          ranges = 0;
          of = null;
        }
        if (of == null) {
          of = JSON.createArrayNode();
          asked.add(JSON.createArrayNode().add(block.offset).add(block.place).add(of));
        }
        of.add(JSON.createArrayNode().add(block.ranges[i]).add(block.ranges[i + 1]));
        ranges++;
      }
    }
    bring(agent, transport, asked, counts);
  }

  private void bring(String agent, String transport, ArrayNode blocks, MergeCounts.Bytes counts) {
    if (blocks.isEmpty()) {
      return;
    }
    ObjectNode request = JSON.createObjectNode().put("peer", agent).put("transport", transport);
    request.set("blocks", blocks);
    // The agent bounds each of its reads by the timeout itself.
    JsonNode brought = channel.call("land", request, (long) timeoutSeconds * blocks.size() + EXTRA_SECONDS);
    counts.add(brought.required("transport").textValue(), brought.required("bytes").longValue());
  }

  /** With the connection the agent lets go; the memory goes when nothing reads it any more. */
  @Override
  public void close() {
    channel.close();
    Native.closeArena(arena);
  }
}
