"""Clicks by page and minute, of now first: what a dashboard shows after an outage, while the backlog is read behind it.

An ordinary PySpark Structured Streaming job. Two settings have it read the newest clicks first, and say of each row how
much has been read of what there was to read, and whether that is not all. A table keeps the last row of each window,
which is the right one in the end. With `--folder` the clicks come as files of JSON, and not from a topic.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 \
      --jars "$(pyslash jar)" --properties-file spark-conf/slash.conf \
      --conf spark.slash.backlog=fresh-first --conf spark.slash.backlog.columns=on \
      examples/fresh_clicks.py --servers HOST:PORT --topic clicks --rows rows/ --checkpoint checkpoint/
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

CLICK = "at timestamp, page string"


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", help="bootstrap servers of Kafka")
    parser.add_argument("--topic", help="topic of the clicks, as JSON")
    parser.add_argument("--folder", help="folder of files of clicks, in the place of a topic")
    parser.add_argument("--rows", required=True, help="folder for the rows, one of JSON for each micro-batch")
    parser.add_argument("--checkpoint", required=True, help="folder for the stream's checkpoint")
    parser.add_argument("--offsets-per-trigger", type=int, help="clicks in a micro-batch, at most")
    parser.add_argument("--files-per-trigger", type=int, help="files in a micro-batch, at most")
    parser.add_argument("--available-now", action="store_true", help="end when all that is there has been read")
    return parser.parse_args(arguments)


def read(spark, args):
    if args.folder:
        options = {"maxFilesPerTrigger": args.files_per_trigger} if args.files_per_trigger else {}
        return spark.readStream.schema(CLICK).options(**options).json(args.folder)
    options = {"kafka.bootstrap.servers": args.servers, "subscribe": args.topic, "startingOffsets": "earliest"}
    if args.offsets_per_trigger:
        options["maxOffsetsPerTrigger"] = args.offsets_per_trigger
    messages = spark.readStream.format("kafka").options(**options).load()
    return messages.select(F.from_json(F.col("value").cast("string"), CLICK).alias("click")).select("click.*")


def start(spark, args):
    counted = read(spark, args).withWatermark("at", "10 seconds").groupBy(F.window("at", "1 minute"), "page").count()

    def write(batch, batch_id):
        # A micro-batch that comes again after a failure has the same rows, and takes the place of its first attempt.
        batch.select("window.start", "*").drop("window").coalesce(1).write.mode("overwrite").json(
            f"{args.rows}/{batch_id:06}"
        )

    return (
        counted.writeStream.foreachBatch(write)
        .option("checkpointLocation", args.checkpoint)
        .outputMode("update")
        .trigger(**({"availableNow": True} if args.available_now else {"processingTime": "0 seconds"}))
        .start()
    )


def main():
    args = parse()
    spark = SparkSession.builder.appName("fresh_clicks").getOrCreate()
    start(spark, args).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
