"""Sightings of aircraft: the first flight of each in the stream, by its tail number; of a day; or one in a while.

An ordinary PySpark Structured Streaming job: nothing in it knows of pyslash. It reads a folder of Parquet files of
flights (`pyslash demo` makes one of the flights out of New York in 2013), in the order in which they were written.

    spark-submit examples/deduplicate.py --input flights/ --output first/ --checkpoint checkpoint/
    spark-submit --jars "$(pyslash jar)" --properties-file spark-conf/slash.conf examples/deduplicate.py --input ...
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

FLIGHT = StructType(
    [
        StructField("scheduled_departure", TimestampType()),
        StructField("carrier", StringType()),
        StructField("tailnum", StringType()),
        StructField("origin", StringType()),
    ]
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", required=True, help="folder of Parquet files of flights")
    parser.add_argument("--output", required=True, help="folder for the result, as Parquet")
    parser.add_argument("--checkpoint", required=True, help="folder for the stream's checkpoint")
    parser.add_argument("--files-per-trigger", type=int, default=8, help="files in a micro-batch")
    parser.add_argument("--daily", action="store_true", help="an aircraft counts again on another day")
    parser.add_argument("--within", metavar="INTERVAL", help="an aircraft counts again so long after it was seen")
    args = parser.parse_args()

    spark = SparkSession.builder.appName("deduplicate").getOrCreate()
    flights = spark.readStream.schema(FLIGHT).option("maxFilesPerTrigger", args.files_per_trigger).parquet(args.input)
    if args.daily:
        # With the event time among the columns, the watermark lets Spark forget the days that are over.
        day = F.date_trunc("day", "scheduled_departure").alias("day")
        sightings = flights.select(day, "tailnum", "carrier", "origin").withWatermark("day", "1 day")
        first = sightings.dropDuplicates(["tailnum", "day"])
    elif args.within:
        # Of an aircraft that comes and goes, one flight is kept, and the next one that is later by the interval.
        first = flights.withWatermark("scheduled_departure", args.within).dropDuplicatesWithinWatermark(["tailnum"])
    else:
        first = flights.dropDuplicates(["tailnum"])
    query = (
        first.writeStream.format("parquet")
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
