"""A visit ends with the logout, or half an hour after the last page: `session_window` knows no logout.

An ordinary PySpark Structured Streaming job with a processor of its own (`transformWithState`, Spark 4.3): nothing in
it knows of pyslash. It reads a folder of Parquet files of page views.

    spark-submit examples/visits.py --input views/ --output visits/ --checkpoint checkpoint/
    spark-submit --jars "$(pyslash jar)" --properties-file spark-conf/slash.conf examples/visits.py --input ...
"""

import argparse

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

VIEW = StructType(
    [
        StructField("viewed_at", TimestampType()),
        StructField("user", LongType()),
        StructField("page", StringType()),
    ]
)
VISIT = "user long, began_ms long, ended_ms long, pages long, how string"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
GAP_MS = 30 * 60_000


class Visits(StatefulProcessor):
    """Keeps a user's visit until it ends; a timer ends the one after which no page comes."""

    def init(self, handle):
        self.handle = handle
        self.visit = handle.getValueState("visit", "began_ms long, ended_ms long, pages long")

    def handleInputRows(self, key, rows, timerValues):
        for view in sorted(rows, key=lambda row: (row.viewed_at, row.page)):
            at = int(view.viewed_at.timestamp() * 1000)
            if self.visit.exists() and at > self.visit.get()[1] + GAP_MS:
                yield self.end(key, "away")
            began, ended, pages = self.visit.get() or (at, at, 0)
            self.visit.update((min(began, at), max(ended, at), pages + 1))
            if view.page == "logout":
                yield self.end(key, "logout")
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        if self.visit.exists():
            self.handle.registerTimer(self.visit.get()[1] + GAP_MS)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        yield self.end(key, "away")

    def end(self, key, how):
        began, ended, pages = self.visit.get()
        self.visit.clear()
        return Row(user=key[0], began_ms=began, ended_ms=ended, pages=pages, how=how)


def visits(views):
    """The visits of a stream of page views, some of which come five minutes late."""
    ended = (
        views.withWatermark("viewed_at", "5 minutes")
        .groupBy("user")
        .transformWithState(Visits(), VISIT, "Append", "EventTime")
    )
    times = [F.timestamp_millis(f"{name}_ms").alias(name) for name in ("began", "ended")]
    return ended.select("user", *times, "pages", "how")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", required=True, help="folder of Parquet files of page views")
    parser.add_argument("--output", required=True, help="folder for the result, as Parquet")
    parser.add_argument("--checkpoint", required=True, help="folder for the stream's checkpoint")
    parser.add_argument("--files-per-trigger", type=int, default=8, help="files in a micro-batch")
    args = parser.parse_args()

    spark = (
        SparkSession.builder.appName("visits")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .getOrCreate()
    )
    views = spark.readStream.schema(VIEW).option("maxFilesPerTrigger", args.files_per_trigger).parquet(args.input)
    query = (
        visits(views)
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
