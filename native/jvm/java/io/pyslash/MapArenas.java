package io.pyslash;

import java.util.ArrayList;
import org.apache.spark.api.java.function.Function;

/** A task that tries whether its executor can map every one of these agents' arenas. */
final class MapArenas implements Function<Integer, Boolean> {
  private static final long serialVersionUID = 1L;

  private final ArrayList<String> agents;

  MapArenas(ArrayList<String> agents) {
    this.agents = agents;
  }

  @Override
  public Boolean call(Integer task) {
    try {
      agents.forEach(PeerArenas::of);
      return true;
    } catch (SlashException unreachable) {
      return false;
    }
  }
}
