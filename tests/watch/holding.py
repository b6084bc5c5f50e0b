"""An application whose queries hold state that is looked at: `python -m tests.watch.holding FOLDER PORT`.

They have read all rows, and still run, but for `over`. What each holds then follows from the rows alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StreamingQuery

import pyslash
from pyslash.spark.session import changed
from tests.support.jvm import end
from tests.support.processors import COVERED, STORE
from tests.support.quiet_files import quiet_files
from tests.support.stream import Stream, seconds
from tests.watch.application import session

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("n", pa.int64())])
DELAY, SLICE = 5, 10  # seconds
CRAWLER, MARKUP, LONG, ODD = "crawler", "<script>document.title='<b>run'</script>", "long" * 50, "\u202e\n" + "odd" * 10
Row = tuple[int, str | None, int]  # time in seconds, key, number


def rows_of(batch: int) -> list[Row]:
    """The rows of one of three micro-batches: the last one has the watermark pass windows of the others."""
    if batch == 2:
        return [(1041, "late comer", 0)]
    found: list[Row] = [(1000 + 20 * batch + at % 20, f"user {at % 40}", at) for at in range(400)]
    found += [(1000 + 20 * batch + at % 20, CRAWLER, at) for at in range(500)]
    return found + batch * [(1036, LONG, 1), (1037, None, 2), (1036, ODD, 3), (1036, MARKUP, 4)]


ROWS = [rows_of(batch) for batch in range(3)]
WATERMARK = max(time for rows in ROWS for time, _, _ in rows) - DELAY


@dataclass
class Holding:
    """What tests need to know."""

    url: str
    runs: dict[str, str]
    checkpoints: dict[str, str]

    @classmethod
    def read(cls, folder: Path) -> Holding:
        """What `main` has written."""
        return cls(**json.loads((folder / "ready.json").read_text()))


def listing() -> StatefulProcessor:
    """Keeps every number of a key."""

    class Listing(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.numbers = handle.getListState("numbers", "n long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            self.numbers.appendList([(row.n,) for row in rows])
            return iter(())

    return Listing()


def pairs(rows: DataFrame) -> DataFrame:
    """Rows of a key that are near each other; both sides are kept."""
    others = rows.select(F.col("ts").alias("at"), F.col("k").alias("key"), F.col("n").alias("number"))
    near = F.expr("k = key AND n % 2 = number % 2 AND at BETWEEN ts - INTERVAL 1 MINUTE AND ts + INTERVAL 1 MINUTE")
    return rows.join(others, near)


QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "windows": lambda rows: rows.groupBy(F.window("ts", f"{SLICE} seconds"), "k").agg(F.count("*"), F.sum("n")),
    "lists": lambda rows: rows.groupBy(F.window("ts", f"{SLICE} seconds"), "k").agg(F.collect_list("n")),
    "sessions": lambda rows: rows.groupBy(F.session_window("ts", "10 minutes"), "k").count(),
    "distinct": lambda rows: rows.dropDuplicates(["k"]),
    "timeless": lambda rows: rows.withColumn("ts", F.timestamp_micros(F.unix_micros("ts"))).dropDuplicates(["k"]),
    "pairs": pairs,
    "hidden": lambda rows: rows.groupBy(F.window("ts", f"{SLICE} seconds"), "k").count(),
    "two": lambda rows: rows.dropDuplicates(["ts", "k"]).groupBy(F.window("ts", f"{SLICE} seconds"), "k").count(),
    "over": lambda rows: rows.groupBy(F.window("ts", f"{SLICE} seconds"), "k").count(),
}
if COVERED:
    QUERIES["processor"] = lambda rows: rows.groupBy("k").transformWithState(listing(), "k string", "Append", "None")


def start(spark: SparkSession, folder: Path, name: str) -> StreamingQuery:
    """The query, over rows of its own."""
    stream = Stream(spark, folder / name, SCHEMA, DELAY)
    for batch in ROWS:
        times, keys, numbers = zip(*batch, strict=True)
        stream.add(pa.table([[seconds(time) for time in times], list(keys), list(numbers)], SCHEMA))
    settings = {"spark.slash.watch.keys": str(name != "hidden").lower(), "spark.slash.mode": "require"}
    with changed(spark, settings | (STORE if name == "processor" else {})):
        writer = QUERIES[name](stream.read()).writeStream.queryName(name).format("noop")
        writer = writer.option("checkpointLocation", str(folder / name / "checkpoint"))
        return writer.trigger(processingTime="1 second").start()


def main(folder: Path, port: int) -> None:
    """Run the queries, and stay until nobody looks any more."""
    spark = session(folder, port)
    pyslash.enable(spark)
    with quiet_files(spark):
        queries = {name: start(spark, folder, name) for name in QUERIES}
        for query in queries.values():
            query.processAllAvailable()
        queries["over"].stop()
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        ready = Holding(
            f"http://127.0.0.1:{port}",
            {name: str(query.runId) for name, query in queries.items()},
            {name: str(folder / name / "checkpoint") for name in queries},
        )
        hidden = folder / "ready.new"
        hidden.write_text(json.dumps(asdict(ready)))
        hidden.rename(folder / "ready.json")
        sys.stdin.read()
        for query in queries.values():
            query.stop()
    end(spark)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
