package io.pyslash.agent;

import io.pyslash.core.Json;
import java.util.Arrays;
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

  /** An executor. */
  record Executor(String id, String host) {}

  /** A list of {@link Executor}, in JSON; in local mode the driver is the executor. */
  public static String known(boolean isLocal) {
    return Json.of(
        Arrays.stream(processes())
            .filter(id -> id.isDriver() == isLocal)
            .map(id -> new Executor(id.executorId(), id.host()))
            .toList());
  }
}
