"""A webhook comes again and again, for a day at most, until it is answered: each one once, whatever time it tells.

`dropDuplicatesWithinWatermark` goes by event time, and the clock of who sends a webhook is not to be trusted. So a
processor (`transformWithState`, Spark 4.3) remembers each id for a day of processing time. Nothing in the job knows of
pyslash. It reads a folder of JSON files of deliveries.

    spark-submit examples/webhooks.py --input deliveries/ --output events/ --checkpoint checkpoint/
    spark-submit --jars "$(pyslash jar)" --properties-file spark-conf/slash.conf examples/webhooks.py ...
"""

import argparse

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

DELIVERY = "id string, attempt int, body string"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DAY_MS = 24 * 60 * 60_000


class Once(StatefulProcessor):
    """Gives the first delivery of an id, and none of the same id for a day."""

    def init(self, handle):
        self.given = handle.getValueState("given", "attempt int", ttlDurationMs=DAY_MS)

    def handleInputRows(self, key, rows, timerValues):
        if not self.given.exists():
            first = min(rows, key=lambda row: row.attempt)
            self.given.update((first.attempt,))
            yield Row(id=key[0], attempt=first.attempt, body=first.body)


def once(deliveries):
    """The deliveries of a stream, without those that have been given in the last 24 hours."""
    return deliveries.groupBy("id").transformWithState(Once(), DELIVERY, "Append", "ProcessingTime")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", required=True, help="folder of JSON files of deliveries")
    parser.add_argument("--output", required=True, help="folder for the result, as Parquet")
    parser.add_argument("--checkpoint", required=True, help="folder for the stream's checkpoint")
    parser.add_argument("--files-per-trigger", type=int, default=8, help="files in a micro-batch")
    args = parser.parse_args()

    spark = (
        SparkSession.builder.appName("webhooks")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        # Where time goes by the clock, Spark would run micro-batches without rows for ever.
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .getOrCreate()
    )
    deliveries = spark.readStream.schema(DELIVERY).option("maxFilesPerTrigger", args.files_per_trigger).json(args.input)
    query = (
        once(deliveries)
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
