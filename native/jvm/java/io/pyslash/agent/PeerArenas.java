package io.pyslash.agent;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.pyslash.core.SlashException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** Arenas of this host that tasks of this JVM read, its own agent's and others', each mapped once. */
public final class PeerArenas {
  private static final Map<String, Agent> MAPPED = new HashMap<>();

  private PeerArenas() {}

  /** The handle of the arena of the agent with this descriptor (JSON), if it is of this host and within sight; else 0. */
  public static long ifHere(String descriptor) {
    try {
      String boot = Files.readString(Path.of("/proc/sys/kernel/random/boot_id")).strip();
      if (!boot.equals(new ObjectMapper().readTree(descriptor).path("boot_id").asText())) {
        return 0;
      }
      return of(descriptor);
    } catch (IOException | SlashException outOfSight) {
      return 0; // containers of one host may not see each other's processes
    }
  }

  private static synchronized long of(String descriptor) {
    // A mapping outlives its agent, and would go on to show what it held.
    MAPPED.values().removeIf(PeerArenas::closeIfGone);
    Agent known = MAPPED.get(descriptor);
    if (known == null) {
      try {
        known = Agent.open(descriptor);
      } catch (IOException error) {
        throw new SlashException("InvalidInputError", "no descriptor of an agent: " + error.getMessage());
      }
      if (closeIfGone(known)) {
        throw new SlashException("StaleIncarnationError", "the agent is gone, and its arena with it: " + descriptor);
      }
      MAPPED.put(descriptor, known);
    }
    return known.arena;
  }

  private static boolean closeIfGone(Agent agent) {
    if (agent.isAlive()) {
      return false;
    }
    agent.close();
    return true;
  }
}
