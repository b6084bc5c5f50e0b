"""Clicks of each minute, and those that came too late to be counted.

An ordinary PySpark Structured Streaming job but for one setting, `spark.slash.late`, a folder for rows that come too
late. It reads a folder of Parquet files of clicks.

    spark-submit --jars "$(pyslash jar)" --properties-file spark-conf/slash.conf examples/late_clicks.py \
      --input clicks/ --output minutes/ --late late/ --checkpoint checkpoint/
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def by_minute(clicks):
    """How many there are, ten minutes after the last one that may still come."""
    return (
        clicks.withWatermark("clicked_at", "10 minutes")
        .groupBy(F.window("clicked_at", "1 minute"), "page")
        .agg(F.count("*").alias("clicks"))
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", required=True, help="folder of Parquet files of clicks")
    parser.add_argument("--output", required=True, help="folder for the counts, as Parquet")
    parser.add_argument("--late", required=True, help="folder for clicks that came too late")
    parser.add_argument("--checkpoint", required=True, help="folder for the stream's checkpoint")
    parser.add_argument("--files-per-trigger", type=int, default=100, help="files of a micro-batch")
    args = parser.parse_args()

    spark = SparkSession.builder.appName("late clicks").getOrCreate()
    spark.conf.set("spark.slash.late", args.late)
    clicks = spark.readStream.schema("clicked_at timestamp, user long, page string")
    query = (
        by_minute(clicks.option("maxFilesPerTrigger", args.files_per_trigger).parquet(args.input))
        .writeStream.format("parquet")
        .option("path", args.output)
        .option("checkpointLocation", args.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
