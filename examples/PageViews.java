import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.count;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.max;
import static org.apache.spark.sql.functions.window;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;

/**
 * How often each page of a site was viewed in each ten minutes, and for how long at most.
 *
 * <p>An ordinary Structured Streaming job in Java: nothing in it knows of pyslash. It reads a folder of Parquet files.
 *
 * <pre>
 *   javac -cp "$SPARK_HOME/jars/*" -d classes examples/PageViews.java
 *   jar --create --file page-views.jar -C classes .
 *   spark-submit --class PageViews page-views.jar views/ counts/ checkpoint/ 8
 *   spark-submit --conf spark.plugins=io.pyslash.SlashPlugin --jars "$(pyslash jar)" --class PageViews page-views.jar ...
 * </pre>
 *
 * <p>Its arguments: the folders of its input, its result and its checkpoint, and how many files are a micro-batch.
 */
public final class PageViews {
  public static void main(String[] arguments) throws Exception {
    SparkSession spark = SparkSession.builder().appName("page views").getOrCreate();
    Dataset<Row> views =
        spark
            .readStream()
            .schema("viewed_at timestamp, page string, seconds long")
            .option("maxFilesPerTrigger", arguments[3])
            .parquet(arguments[0]);
    Dataset<Row> counts =
        views
            .withWatermark("viewed_at", "1 minute")
            .groupBy(window(col("viewed_at"), "10 minutes"), col("page"))
            .agg(count(lit(1)).as("views"), max("seconds").as("longest"))
            .select(col("window.start"), col("page"), col("views"), col("longest"));
    StreamingQuery query =
        counts
            .writeStream()
            .format("parquet")
            .option("path", arguments[1])
            .option("checkpointLocation", arguments[2])
            .outputMode("append")
            .trigger(Trigger.AvailableNow())
            .start();
    query.awaitTermination();
    spark.stop();
  }
}
