"""Visits to a site: clicks of a user that follow each other within half an hour, and what was done in each visit.

An ordinary PySpark Structured Streaming job: nothing in it knows of pyslash. It reads a folder of Parquet
files of clicks.

    spark-submit examples/sessions.py --input clicks/ --output visits/ --checkpoint checkpoint/
    spark-submit --jars "$(pyslash jar)" --properties-file spark-conf/slash.conf examples/sessions.py --input ...
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

CLICK = StructType(
    [
        StructField("clicked_at", TimestampType()),
        StructField("user", LongType()),
        StructField("page", StringType()),
        StructField("paid", LongType()),  # cents; null for a click that bought nothing
    ]
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", required=True, help="folder of Parquet files of clicks")
    parser.add_argument("--output", required=True, help="folder for the result, as Parquet")
    parser.add_argument("--checkpoint", required=True, help="folder for the stream's checkpoint")
    parser.add_argument("--files-per-trigger", type=int, default=8, help="files in a micro-batch")
    parser.add_argument("--gap", default="30 minutes", help="without a click for so long a visit is over")
    args = parser.parse_args()

    spark = SparkSession.builder.appName("sessions").getOrCreate()
    clicks = spark.readStream.schema(CLICK).option("maxFilesPerTrigger", args.files_per_trigger).parquet(args.input)
    visits = (
        clicks.withWatermark("clicked_at", "10 minutes")
        .groupBy(F.session_window("clicked_at", args.gap).alias("visit"), "user")
        .agg(
            F.count("*").alias("clicks"),
            F.sum("paid").alias("paid"),
            F.max_by("page", "paid").alias("page_of_the_dearest"),
        )
    )
    query = (
        visits.writeStream.format("parquet")
        .option("path", args.output)
        .option("checkpointLocation", args.checkpoint)
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
