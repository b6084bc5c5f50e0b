import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;

/**
 * A job without Python, whose query is SQL; `test_plugin_java` runs it in an application with the plugin.
 *
 * <p>Its arguments: the folder of its input, a folder for what it writes, and a Python that has pyslash. Its report is lines.
 */
public final class PluginJob {
  private final SparkSession spark;
  private final String source;
  private final Path folder;
  private final List<String> report = new ArrayList<>();

  private PluginJob(SparkSession spark, String source, Path folder) {
    this.spark = spark;
    this.source = source;
    this.folder = folder;
  }

  public static void main(String[] arguments) throws Exception {
    SparkSession spark = SparkSession.builder().getOrCreate();
    PluginJob job = new PluginJob(spark, arguments[0], Path.of(arguments[1]));
    job.run("off", "off");
    job.run("auto", "auto without Python");
    try {
      job.run("require", "require without Python");
    } catch (UnsupportedOperationException refused) {
      job.report.add("refused: " + refused.getMessage().replace('\n', ' '));
    }
    spark.sparkContext().conf().set("spark.pyspark.python", arguments[2]);
    job.run("require", "require");
    spark.sparkContext().conf().set("spark.pyspark.python", "/bin/false");
    job.report.add("keeps the JVM alive: " + others(Thread.currentThread()));
    Files.write(job.folder.resolve("report"), job.report);
    spark.stop();
  }

  /** Threads for whose end a JVM would wait whose main thread fails here. */
  private static List<String> others(Thread main) {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> !thread.isDaemon() && thread != main)
        .map(Thread::getName)
        .toList();
  }

  /** Reports the rows of each micro-batch, and whether pyslash has left state in the checkpoint. */
  private void run(String mode, String name) throws Exception {
    spark.conf().set("spark.slash.mode", mode);
    spark
        .readStream()
        .schema("ts timestamp, k long, v long")
        .option("maxFilesPerTrigger", 1)
        .parquet(source)
        .withWatermark("ts", "0 seconds")
        .createOrReplaceTempView("input");
    Dataset<Row> counts =
        spark.sql(
            "SELECT window.start, k, count(*) AS n, sum(v) AS s FROM input GROUP BY window(ts, '10 seconds'), k");
    Path checkpoint = folder.resolve(name).resolve("checkpoint");
    VoidFunction2<Dataset<Row>, Long> take =
        (rows, batch) -> {
          List<String> lines = new ArrayList<>();
          for (Row row : rows.collectAsList()) {
            lines.add(row.toString());
          }
          Collections.sort(lines);
          report.add(name + ": " + batch + " " + lines);
        };
    StreamingQuery query =
        counts
            .writeStream()
            .foreachBatch(take)
            .option("checkpointLocation", checkpoint.toString())
            .trigger(Trigger.AvailableNow())
            .start();
    query.awaitTermination();
    report.add(name + " on pyslash: " + Files.isDirectory(checkpoint.resolve("slash")));
  }
}
