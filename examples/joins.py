"""Advertisements shown and clicked: the clicks of each impression within ten minutes, and the impressions without any.

An ordinary PySpark Structured Streaming job: nothing in it knows of pyslash. It reads the Parquet files of two folders,
impressions and clicks, in the order in which they were written.

    spark-submit examples/joins.py --input ads/ --output clicked/ --checkpoint checkpoint/
    spark-submit --jars "$(pyslash jar)" --properties-file spark-conf/slash.conf examples/joins.py --input ...
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

IMPRESSION = StructType(
    [StructField("shown_at", TimestampType()), StructField("ad", LongType()), StructField("page", StringType())]
)
CLICK = StructType(
    [StructField("clicked_at", TimestampType()), StructField("of_ad", LongType()), StructField("user", StringType())]
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", required=True, help="folder with the folders impressions and clicks")
    parser.add_argument("--output", required=True, help="folder for the result, as Parquet")
    parser.add_argument("--checkpoint", required=True, help="folder for the stream's checkpoint")
    parser.add_argument("--files-per-trigger", type=int, default=8, help="files of each folder in a micro-batch")
    args = parser.parse_args()

    spark = SparkSession.builder.appName("joins").getOrCreate()

    def stream(name, schema, time):
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", args.files_per_trigger)
        return reader.parquet(f"{args.input}/{name}").withWatermark(time, "1 minute")

    impressions = stream("impressions", IMPRESSION, "shown_at")
    clicks = stream("clicks", CLICK, "clicked_at")
    soon = F.expr("ad = of_ad AND clicked_at BETWEEN shown_at AND shown_at + INTERVAL 10 MINUTES")
    clicked = impressions.join(clicks, soon, "left_outer")
    query = (
        clicked.select("shown_at", "ad", "page", "clicked_at", "user")
        .writeStream.format("parquet")
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
