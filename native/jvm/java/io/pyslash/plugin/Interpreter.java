package io.pyslash.plugin;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.SparkConf;

/**
 * The Python beside the driver: of `python job.py` the one that runs it, which has started this JVM; else the one that
 * spark-submit would take.
 *
 * @param origin where it was named, in words
 */
record Interpreter(String command, String origin) {
  private static final String OF_PYSPARK = "_PYSPARK_DRIVER_CONN_INFO_PATH"; // set where PySpark has started this JVM

  private static final String OF_JOB = "the job's own";

  /** Whether it runs the job as well: no setting names another one then. */
  boolean isOfJob() {
    return origin.equals(OF_JOB);
  }

  static Interpreter of(SparkConf conf) {
    String parent = System.getenv(OF_PYSPARK) == null ? null : parent();
    if (parent != null) {
      return new Interpreter(parent, OF_JOB);
    }
    for (String key : new String[] {"spark.pyspark.driver.python", "spark.pyspark.python"}) {
      if (conf.contains(key)) {
        return new Interpreter(conf.get(key), key);
      }
    }
    for (String name : new String[] {"PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"}) {
      String value = System.getenv(name);
      if (value != null && !value.isEmpty()) {
        return new Interpreter(value, name);
      }
    }
    return new Interpreter("python3", "the PATH");
  }

  /** The Python that has started this process: by its first argument, which leads into its environment. */
  private static String parent() {
    return ProcessHandle.current().parent().map(process -> python(process.pid())).orElse(null);
  }

  private static String python(long pid) {
    Path process = Path.of("/proc", Long.toString(pid));
    try {
      if (!process.resolve("exe").toRealPath().getFileName().toString().startsWith("python")) {
        return null;
      }
      String program = Files.readString(process.resolve("cmdline")).split("\0", 2)[0];
      if (program.contains("/")) {
        Path path = process.resolve("cwd").toRealPath().resolve(program);
        return Files.isExecutable(path) ? path.toString() : null; // a process may call itself anything
      }
      return program.startsWith("python") ? program : null;
    } catch (IOException | SecurityException ended) {
      return null;
    }
  }
}
