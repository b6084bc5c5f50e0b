// How often each page of a site was viewed in each ten minutes, and for how long at most.
//
// An ordinary Structured Streaming job in Scala: nothing in it knows of pyslash. It reads a folder of Parquet files. Spark
// has a compiler of its own Scala among its jars.
//
//   java -cp "$SPARK_HOME/jars/*" scala.tools.nsc.Main -usejavacp -d page-views.jar examples/PageViews.scala
//   spark-submit --class PageViews page-views.jar views/ counts/ checkpoint/ 8
//   spark-submit --conf spark.plugins=io.pyslash.SlashPlugin --jars "$(pyslash jar)" --class PageViews page-views.jar ...
//
// Its arguments: the folders of its input, its result and its checkpoint, and how many files are a micro-batch.

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.functions.{col, count, lit, max, window}
import org.apache.spark.sql.streaming.Trigger

object PageViews {
  def main(arguments: Array[String]): Unit = {
    val Array(input, output, checkpoint, files) = arguments
    val spark = SparkSession.builder().appName("page views").getOrCreate()
    val views = spark.readStream
      .schema("viewed_at timestamp, page string, seconds long")
      .option("maxFilesPerTrigger", files)
      .parquet(input)
    val counts = views
      .withWatermark("viewed_at", "1 minute")
      .groupBy(window(col("viewed_at"), "10 minutes"), col("page"))
      .agg(count(lit(1)).as("views"), max("seconds").as("longest"))
      .select(col("window.start"), col("page"), col("views"), col("longest"))
    val query = counts.writeStream
      .format("parquet")
      .option("path", output)
      .option("checkpointLocation", checkpoint)
      .outputMode("append")
      .trigger(Trigger.AvailableNow())
      .start()
    query.awaitTermination()
    spark.stop()
  }
}
