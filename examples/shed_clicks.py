"""Clicks by page and minute, estimated where there are more than the cluster can take, with bounds.

An ordinary PySpark Structured Streaming job. With one setting it takes a sample of the clicks while there are too many
of them. Each row then says between which bounds its true values lie, and the job writes those too.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 \
      --jars "$(pyslash jar)" --properties-file spark-conf/slash.conf --conf spark.slash.shed=bounded \
      examples/shed_clicks.py --servers HOST:PORT --topic clicks --rows rows/ --checkpoint checkpoint/
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

CLICK = "at timestamp, page string, milliseconds double"


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", required=True, help="bootstrap servers of Kafka")
    parser.add_argument("--topic", required=True, help="topic of the clicks, as JSON")
    parser.add_argument("--rows", required=True, help="folder for the rows, of JSON")
    parser.add_argument("--checkpoint", required=True, help="folder for the stream's checkpoint")
    parser.add_argument("--available-now", action="store_true", help="end when all that is there has been read")
    return parser.parse_args(arguments)


def start(spark, args):
    options = {"kafka.bootstrap.servers": args.servers, "subscribe": args.topic, "startingOffsets": "earliest"}
    messages = spark.readStream.format("kafka").options(**options).load()
    clicks = messages.select(F.from_json(F.col("value").cast("string"), CLICK).alias("click")).select("click.*")
    by_page = (
        clicks.withWatermark("at", "10 seconds")
        .groupBy(F.window("at", "1 minute"), "page")
        .agg(F.count("*").alias("clicks"), F.avg("milliseconds").alias("load_ms"))
    )
    return (
        by_page.writeStream.format("json")
        .option("path", args.rows)
        .option("checkpointLocation", args.checkpoint)
        .outputMode("append")
        .trigger(**({"availableNow": True} if args.available_now else {"processingTime": "0 seconds"}))
        .start()
    )


def main():
    args = parse()
    spark = SparkSession.builder.appName("shed_clicks").getOrCreate()
    start(spark, args).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
