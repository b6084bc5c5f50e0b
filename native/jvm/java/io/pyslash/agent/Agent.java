package io.pyslash.agent;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.pyslash.core.Native;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;

/** A running agent: its descriptor as the agent wrote it, and its arena, mapped. */
public final class Agent {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** The bytes that a receipt starts with. */
  public final byte[] descriptor;

  final byte[] incarnation;
  public final long arena;
  /** Where it listens for this host. */
  final Path socket;

  private final long pid;
  private final long startTime;

  private Agent(byte[] descriptor, byte[] incarnation, long arena, Path socket, long pid, long startTime) {
    this.descriptor = descriptor;
    this.incarnation = incarnation;
    this.arena = arena;
    this.socket = socket;
    this.pid = pid;
    this.startTime = startTime;
  }

  static Agent open(String descriptor) throws IOException {
    JsonNode fields = JSON.readTree(descriptor);
    long pid = fields.required("pid").longValue();
    byte[] incarnation = HexFormat.of().parseHex(fields.required("incarnation").textValue());
    return new Agent(
        descriptor.getBytes(StandardCharsets.UTF_8),
        incarnation,
        Native.openArena(path(pid, fields.required("fd").intValue()), incarnation),
        Path.of(fields.required("socket").asText()),
        pid,
        fields.required("start_time").longValue());
  }

  /** A mapping of another file of the agent's, which begins as its arena does. */
  public long openFile(int fd) {
    return Native.openArena(path(pid, fd), incarnation);
  }

  private static String path(long pid, int fd) {
    return "/proc/" + pid + "/fd/" + fd;
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
