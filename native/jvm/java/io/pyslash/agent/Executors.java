package io.pyslash.agent;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.SparkEnv;
import org.apache.spark.storage.BlockManagerId;
import scala.jdk.javaapi.CollectionConverters;

/** The processes of this application, as its driver knows them. */
public final class Executors {
  private Executors() {}

  public static BlockManagerId[] processes() {
    return CollectionConverters.asJava(SparkEnv.get().blockManager().master().getMemoryStatus())
        .keySet()
        .toArray(BlockManagerId[]::new);
  }

  /** An id and a host each, with a blank between; in local mode the driver is the executor. */
  public static List<String> idsAndHosts(boolean isLocal) {
    return Arrays.stream(processes())
        .filter(id -> id.isDriver() == isLocal)
        .map(id -> id.executorId() + " " + id.host())
        .toList();
  }
}
