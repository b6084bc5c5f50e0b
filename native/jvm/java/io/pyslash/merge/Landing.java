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
import java.util.Map;

/** Memory that this executor's agent brings blocks of other agents to; it is gone once closed, or with this JVM. */
final class Landing implements AutoCloseable {
  private static final ObjectMapper JSON = new ObjectMapper();
  // A request has at most 1 MiB; a range has two numbers, and a block two more, of at most 19 digits each.
  private static final int REQUEST_BYTES = 900_000;
  private static final int BYTES_A_RANGE = 48;
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

  /**
   * Room for so many bytes; what is not brought takes no memory. What is brought of a {@code version} of the query's state is
   * shared with other tasks of this executor that ask for it; the empty one is nobody's.
   */
  Landing(MergeSpec.ReadOptions reading, long bytes, String version) {
    Agent agent = AgentProcess.ensure(reading.agent());
    timeoutSeconds = reading.timeoutSeconds();
    channel = new AgentChannel(agent, reading.query(), reading.token(), timeoutSeconds);
    try {
      ObjectNode request = JSON.createObjectNode()
          .put("bytes", bytes)
          .put("timeout_seconds", timeoutSeconds)
          .put("version", version);
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

  /** Brings ranges of blocks of agents (descriptors), and counts their bytes: in one call, unless they are very many. */
  void bring(Map<String, List<Block>> blocks, String transport, MergeCounts.Bytes counts) {
    ArrayNode peers = JSON.createArrayNode();
    long left = REQUEST_BYTES;
    for (Map.Entry<String, List<Block>> peer : blocks.entrySet()) {
      ArrayNode ofPeer = null;
      for (Block block : peer.getValue()) {
        ArrayNode ofBlock = null;
        for (int i = 0; i < block.ranges.length; i += 2) {
          if (left < 0) {
            call(peers, transport, counts);
            peers = JSON.createArrayNode();
            left = REQUEST_BYTES;
            ofPeer = ofBlock = null;
          }
          if (ofPeer == null) {
            ofPeer = JSON.createArrayNode();
            peers.add(JSON.createArrayNode().add(peer.getKey()).add(ofPeer));
            left -= 2L * peer.getKey().length();
          }
          if (ofBlock == null) {
            ofBlock = JSON.createArrayNode();
            ofPeer.add(JSON.createArrayNode().add(block.offset).add(block.place).add(ofBlock));
            left -= BYTES_A_RANGE;
          }
          ofBlock.add(JSON.createArrayNode().add(block.ranges[i]).add(block.ranges[i + 1]));
          left -= BYTES_A_RANGE;
        }
      }
    }
    call(peers, transport, counts);
  }

  private void call(ArrayNode peers, String transport, MergeCounts.Bytes counts) {
    if (peers.isEmpty()) {
      return;
    }
    ObjectNode request = JSON.createObjectNode().put("transport", transport);
    request.set("peers", peers);
    // The agent bounds each of its reads by the timeout itself, and reads some peers after others.
    JsonNode answer = channel.call("land", request, (long) timeoutSeconds * peers.size() + EXTRA_SECONDS);
    JsonNode brought = answer.required("brought");
    brought.fieldNames().forEachRemaining(name -> counts.add(name, brought.required(name).longValue()));
  }

  /** With the connection the agent lets go; the memory goes when nothing reads it any more. */
  @Override
  public void close() {
    channel.close();
    Native.closeArena(arena);
  }
}
