"""A client of Spark Connect, which has `pyspark-client` alone: `test_plugin_connect` runs it.

Its queries do not know pyslash; in the end it asks about them. Its arguments: the server, the folder of its input, and
a folder for all that it writes.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener


def writer(spark: SparkSession, source: str, folder: Path) -> Any:
    """That of windows over a stream whose micro-batches are the files of its input."""
    reader = spark.readStream.schema("ts timestamp, k long, v long").option("maxFilesPerTrigger", 1)
    rows = reader.parquet(source).withWatermark("ts", "0 seconds")
    counted = rows.groupBy(F.window("ts", "10 seconds"), "k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))
    counts = counted.select("window.start", "k", "n", "s").writeStream.outputMode("update")
    return counts.trigger(availableNow=True).option("checkpointLocation", str(folder / "checkpoint"))


def function(spark: SparkSession, source: str, folder: Path) -> dict[str, list[str]]:
    """What a function of the client, which runs beside the server, gets in each micro-batch."""
    out = folder / "out"
    out.mkdir(parents=True)

    def take(rows: DataFrame, batch: int) -> None:
        (out / str(batch)).write_text(json.dumps(sorted(map(repr, rows.collect()))))

    query = started(writer(spark, source, folder).foreachBatch(take))
    assert query.awaitTermination(900)
    return {path.name: json.loads(path.read_text()) for path in sorted(out.iterdir())}


def started(writer: Any) -> Any:
    """Its query. Spark waits ten seconds for the worker of a client's function, which a busy machine may not have."""
    for _ in range(9):
        try:
            return writer.start()
        except PySparkException as error:
            if "connect back" not in str(error):
                raise
    return writer.start()


def counted(spark: SparkSession, source: str, folder: Path) -> dict[str, list[str]]:
    """What a sink that counts its rows has told Spark."""
    query = writer(spark, source, folder).format("noop").start()
    assert query.awaitTermination(900)
    return {str(one["batchId"]): [str(one["sink"]["numOutputRows"])] for one in query.recentProgress}


class Listener(StreamingQueryListener):
    """What it is told, on the client, of the queries of this session."""

    def __init__(self) -> None:
        self.batches: dict[str, list[str]] = {}
        self.began = self.ended = 0
        self.over = threading.Event()

    def onQueryStarted(self, event: Any) -> None:
        self.began += 1

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress
        told = [
            sum(one.numInputRows for one in progress.sources),
            progress.sink.numOutputRows,
            progress.sink.description,
        ]
        self.batches[str(progress.batchId)] = [json.dumps(told)]

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        self.ended += 1
        self.over.set()


def listened(spark: SparkSession, source: str, folder: Path) -> dict[str, list[str]]:
    """What a listener of the client hears."""
    listener = Listener()
    spark.streams.addListener(listener)
    try:
        query = writer(spark, source, folder).format("noop").start()
        assert query.awaitTermination(900)
        assert listener.over.wait(900)
    finally:
        spark.streams.removeListener(listener)
    return {**listener.batches, "began and ended": [f"{listener.began} {listener.ended}"]}


def refused(spark: SparkSession, source: str) -> str:
    """What a query raises that pyslash does not cover, and must."""
    rows = spark.readStream.schema("ts timestamp, k long, v long").parquet(source)
    try:
        rows.limit(3).writeStream.format("noop").trigger(availableNow=True).start()
    except PySparkException as error:
        return str(error)
    return ""


def _outcome(ask: Callable[[], Any]) -> str:
    """The error that a question ends in."""
    try:
        return str(ask())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def asked(spark: SparkSession, source: str, folder: Path) -> dict[str, Any]:
    """What a client hears of its queries. It has no JVM, and no native code of pyslash."""
    sys.modules["py4j"] = sys.modules["pyslash._native"] = None  # type: ignore[assignment]
    from pyslash import connect

    rows = spark.readStream.schema("ts timestamp, k long, v long").parquet(source)
    query = writer(spark, source, folder).format("noop").queryName("asked").start()
    assert query.awaitTermination(900)
    checkpoint = str(folder / "checkpoint")
    return {
        "covered": connect.explain(rows.groupBy("k").count(), "update"),
        "not covered": connect.explain(rows.limit(3)),
        "no mode": _outcome(lambda: connect.explain(rows, "apend")),
        "epochs": [[epoch["epoch"], epoch["rows"]] for epoch in connect.progress(query)],
        "state": sorted(map(list, connect.state(spark, checkpoint, epoch=2).selectExpr("k", "`sum(v)`").collect())),
        "of the query": connect.state(spark, query=str(query.id)).count(),
        "no state": _outcome(lambda: connect.state(spark, source)),
        "no option": _outcome(lambda: connect.state(spark, checkpoint, version=3)),
    }


def main(server: str, source: str, folder: Path) -> None:
    """Report what each query gave with pyslash and without."""
    spark = SparkSession.builder.remote(server).getOrCreate()
    report: dict[str, Any] = {}
    for mode in ("off", "require"):
        spark.conf.set("spark.slash.mode", mode)
        report[mode] = {
            case.__name__: case(spark, source, folder / mode / case.__name__) for case in (function, counted, listened)
        }
    report["refused"] = refused(spark, source)
    report["asked"] = asked(spark, source, folder / "asked")
    (folder / "report.json").write_text(json.dumps(report))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
