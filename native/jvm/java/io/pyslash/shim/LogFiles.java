package io.pyslash.shim;

import java.nio.file.Files;
import java.nio.file.Path;
import java.security.CodeSource;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's log files without forks, in an application with the plugin: from its start, because a file sink makes its log
 * before anybody is asked about its query. `pyslash.spark.log_files` does it for one without the plugin.
 */
public final class LogFiles {
  private static final String MANAGER = "spark.sql.streaming.checkpointFileManagerClass";
  // Spark's interface has moved between 4.0 and 4.1: a class loads where its interface is.
  private static final String[] CLASSES = {
    "io.pyslash.logs.spark41.CheckpointFiles", "io.pyslash.logs.spark40.CheckpointFiles"
  };

  private LogFiles() {}

  /** Names the manager in Hadoop's configuration, unless somebody has named one, or this Spark has no place for it. */
  public static void install(SparkContext context) {
    Configuration hadoop = context.hadoopConfiguration();
    if (hadoop.get(MANAGER) != null) {
      return;
    }
    ClassLoader all = Thread.currentThread().getContextClassLoader(); // the driver's, which has found the plugin
    for (String name : CLASSES) {
      try {
        Class.forName(name, true, all);
      } catch (ClassNotFoundException | LinkageError elsewhere) {
        continue;
      }
      addJar(context);
      hadoop.set(MANAGER, name);
      return;
    }
  }

  /** Tasks of state stores make managers, too: executors need the jar, however the driver has come by it. */
  private static void addJar(SparkContext context) {
    CodeSource source = LogFiles.class.getProtectionDomain().getCodeSource();
    Path jar = Path.of(source.getLocation().getPath());
    boolean isThere = CollectionConverters.asJava(context.listJars()).stream()
        .anyMatch(other -> other.endsWith("/" + jar.getFileName()));
    if (!isThere && Files.isRegularFile(jar)) {
      context.addJar(jar.toString());
    }
  }
}
