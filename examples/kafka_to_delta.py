"""Revenue of each shop in windows of ten seconds: orders from Kafka, as JSON, appended to a Delta table.

An ordinary PySpark Structured Streaming job: nothing in it knows of pyslash. `make pipeline-append` runs it on pyslash
with a broker and orders of its own. A window is appended once, when the watermark has passed it; Delta keeps the
query's id and the micro-batch's in each transaction, so a micro-batch that is written again changes nothing.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0,io.delta:delta-spark_4.2_2.13:4.4.0 \
      --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension \
      --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog \
      --jars "$(pyslash jar)" --properties-file spark-conf/slash.conf \
      examples/kafka_to_delta.py --servers HOST:PORT --topic orders --table revenue/ --checkpoint checkpoint/
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

ORDER = "number bigint, ordered_at timestamp, shop string, cents bigint"


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", required=True, help="bootstrap servers of Kafka")
    parser.add_argument("--topic", required=True, help="topic of the orders")
    parser.add_argument("--table", required=True, help="folder of the Delta table")
    parser.add_argument("--checkpoint", required=True, help="folder for the stream's checkpoint")
    parser.add_argument("--offsets-per-trigger", type=int, default=100_000, help="orders in a micro-batch, at most")
    parser.add_argument("--available-now", action="store_true", help="end when all that is there has been read")
    return parser.parse_args(arguments)


def start(spark, args):
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", args.servers)
        .option("subscribe", args.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", args.offsets_per_trigger)
        .load()
    )
    orders = messages.select(F.from_json(F.col("value").cast("string"), ORDER).alias("order")).select("order.*")
    revenue = (
        orders.withWatermark("ordered_at", "10 seconds")
        .groupBy(F.window("ordered_at", "10 seconds"), "shop")
        .agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
        .select(F.col("window.start").alias("window_start"), "shop", "orders", "cents")
    )
    return (
        revenue.writeStream.format("delta")
        .option("path", args.table)
        .option("checkpointLocation", args.checkpoint)
        .outputMode("append")
        .trigger(**({"availableNow": True} if args.available_now else {"processingTime": "1 second"}))
        .start()
    )


def main():
    args = parse()
    spark = SparkSession.builder.appName("kafka_to_delta").getOrCreate()
    start(spark, args).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
