"""Stolen cards are tried out with a tiny payment before a large one: alerts of a large one within a minute.

An ordinary PySpark Structured Streaming job with a processor of its own (`transformWithState`, Spark 4.3): nothing in
it knows of pyslash. It reads a folder of Parquet files of payments.

    spark-submit examples/fraud.py --input payments/ --output alerts/ --checkpoint checkpoint/
    spark-submit --jars "$(pyslash jar)" --properties-file spark-conf/slash.conf examples/fraud.py --input ...
"""

import argparse

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

PAYMENT = StructType(
    [
        StructField("paid_at", TimestampType()),
        StructField("card", LongType()),
        StructField("cents", LongType()),
        StructField("shop", StringType()),
    ]
)
ALERT = "card long, tried_at timestamp, tried_in string, paid_at timestamp, shop string, cents long"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
TINY, LARGE = 100, 50_000
WITHIN_MS = 60_000


class TriedOut(StatefulProcessor):
    """Remembers the last tiny payment of a card until the watermark says that a minute has gone by."""

    def init(self, handle):
        self.handle = handle
        self.tiny = handle.getValueState("tiny", "at timestamp, shop string")

    def handleInputRows(self, key, rows, timerValues):
        for payment in sorted(rows, key=lambda row: row.paid_at):
            tried = self.tiny.get()
            if payment.cents >= LARGE and tried is not None:
                since = (payment.paid_at.timestamp() - tried[0].timestamp()) * 1000
                if 0 <= since <= WITHIN_MS:
                    yield Row(
                        card=key[0],
                        tried_at=tried[0],
                        tried_in=tried[1],
                        paid_at=payment.paid_at,
                        shop=payment.shop,
                        cents=payment.cents,
                    )
            elif payment.cents <= TINY:
                self.tiny.update((payment.paid_at, payment.shop))
                for timer in list(self.handle.listTimers()):
                    self.handle.deleteTimer(timer)
                self.handle.registerTimer(int(payment.paid_at.timestamp() * 1000) + WITHIN_MS)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        self.tiny.clear()
        yield from ()


def alerts(payments):
    """The alerts of a stream of payments, some of which come half a minute late."""
    return (
        payments.withWatermark("paid_at", "30 seconds")
        .groupBy("card")
        .transformWithState(TriedOut(), ALERT, "Append", "EventTime")
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", required=True, help="folder of Parquet files of payments")
    parser.add_argument("--output", required=True, help="folder for the result, as Parquet")
    parser.add_argument("--checkpoint", required=True, help="folder for the stream's checkpoint")
    parser.add_argument("--files-per-trigger", type=int, default=8, help="files in a micro-batch")
    args = parser.parse_args()

    spark = (
        SparkSession.builder.appName("fraud")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .getOrCreate()
    )
    payments = spark.readStream.schema(PAYMENT).option("maxFilesPerTrigger", args.files_per_trigger).parquet(args.input)
    query = (
        alerts(payments)
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
