"""Departure delays of the last day, by carrier and airport, every hour; or of other windows, by other columns.

An ordinary PySpark Structured Streaming job: nothing in it knows of pyslash. It reads a folder of Parquet files of
flights (`pyslash demo` makes one of the flights out of New York in 2013), in the order in which they were written.

    spark-submit examples/flights.py --input flights/ --output delays/ --checkpoint checkpoint/
    spark-submit --jars "$(pyslash jar)" --properties-file spark-conf/slash.conf examples/flights.py --input ...
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

FLIGHT = StructType(
    [
        StructField("scheduled_departure", TimestampType()),
        StructField("carrier", StringType()),
        StructField("flight", IntegerType()),
        StructField("tailnum", StringType()),
        StructField("origin", StringType()),
        StructField("dest", StringType()),
        StructField("departure_delay", IntegerType()),  # minutes; null for a cancelled flight
    ]
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", required=True, help="folder of Parquet files of flights")
    parser.add_argument("--output", required=True, help="folder for the result, as Parquet")
    parser.add_argument("--checkpoint", required=True, help="folder for the stream's checkpoint")
    parser.add_argument("--files-per-trigger", type=int, default=8, help="files in a micro-batch")
    parser.add_argument("--window", default="1 day", help="length of a window (default: 1 day)")
    parser.add_argument("--slide", default="1 hour", help="from one window's start to the next's (default: 1 hour)")
    parser.add_argument("--keys", default="carrier,origin", help="columns to group by (default: carrier,origin)")
    args = parser.parse_args()

    spark = SparkSession.builder.appName("flights").getOrCreate()
    flights = spark.readStream.schema(FLIGHT).option("maxFilesPerTrigger", args.files_per_trigger).parquet(args.input)
    delays = (
        flights.withWatermark("scheduled_departure", "1 hour")
        .groupBy(F.window("scheduled_departure", args.window, args.slide), *args.keys.split(","))
        .agg(
            F.count("*").alias("flights"),
            F.avg("departure_delay").alias("mean_delay"),
            F.max("departure_delay").alias("worst_delay"),
        )
    )
    query = (
        delays.writeStream.format("parquet")
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
