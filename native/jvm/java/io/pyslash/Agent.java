package io.pyslash;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;

/** A running agent: its descriptor as the agent wrote it, and its arena, mapped. */
final class Agent {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** The bytes that a receipt starts with. */
  final byte[] descriptor;

  final long arena;
  private final long pid;
  private final long startTime;

  private Agent(byte[] descriptor, long arena, long pid, long startTime) {
    this.descriptor = descriptor;
    this.arena = arena;
    this.pid = pid;
    this.startTime = startTime;
  }

  static Agent open(String descriptor) throws IOException {
    JsonNode fields = JSON.readTree(descriptor);
    long pid = fields.required("pid").longValue();
    String path = "/proc/" + pid + "/fd/" + fields.required("fd").intValue();
    byte[] incarnation = HexFormat.of().parseHex(fields.required("incarnation").textValue());
    return new Agent(
        descriptor.getBytes(StandardCharsets.UTF_8),
        Native.openArena(path, incarnation),
        pid,
        fields.required("start_time").longValue());
  }

  /** Whether that very process still runs: a pid alone may be another's by now. */
  boolean isAlive() {
    try {
      String stat = Files.readString(Path.of("/proc/" + pid + "/stat"), StandardCharsets.ISO_8859_1);
      // The command, in brackets, may hold spaces; the state is the first field after it, the start time the twentieth.
      String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
      return !fields[0].equals("Z") && !fields[0].equals("X") && Long.parseLong(fields[19]) == startTime;
    } catch (IOException gone) {
      return false;
    }
  }

  void close() {
    Native.closeArena(arena);
  }
}
