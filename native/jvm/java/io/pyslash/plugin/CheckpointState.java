package io.pyslash.plugin;

import io.pyslash.shim.QueryStart;
import java.io.IOException;
import java.util.Arrays;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.internal.SQLConf;

/** State of pyslash in the checkpoint of a query that Spark is to run, which would find none of its own there. */
final class CheckpointState {
  private static final String MANIFESTS = "slash/manifests"; // as pyslash.state.manifest has it
  private static final String ROOT = "spark.sql.streaming.checkpointLocation";

  private CheckpointState() {}

  /** Fails if there is any; {@code why} says why pyslash does not run the query. */
  static void refuse(QueryStart start, String why) {
    String location = location(start);
    if (location != null && isIn(location, start)) {
      throw new UnsupportedOperationException(
          "UnsupportedQueryError: the state of this query in "
              + location
              + " is pyslash's, which plain Spark cannot read, and "
              + why
              + ". Let pyslash run the query as it was, move it by `pyslash state export`, or give it a new"
              + " checkpointLocation");
    }
  }

  private static boolean isIn(String location, QueryStart start) {
    try {
      Path manifests = new Path(location, MANIFESTS);
      FileSystem files = manifests.getFileSystem(start.session().sessionState().newHadoopConf());
      return files.exists(manifests)
          && Arrays.stream(files.listStatus(manifests)).anyMatch(file -> file.getPath().getName().matches("\\d+"));
    } catch (IOException unreachable) {
      return false; // a location that cannot be reached is Spark's to refuse
    }
  }

  /** Null if the query has a temporary checkpoint, or a folder of its own with each start. */
  private static String location(QueryStart start) {
    if (start.checkpoint() != null) {
      return start.checkpoint();
    }
    SQLConf conf = start.session().sessionState().conf();
    String root = conf.getConfString(ROOT, "");
    return root.isEmpty() || start.name() == null ? null : root + "/" + start.name();
  }
}
