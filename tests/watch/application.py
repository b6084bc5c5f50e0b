"""An application whose queries are looked at: `python -m tests.watch.application FOLDER PORT`.

All of these queries can be watched in a UI, in an event log and by Prometheus' servlet. `orders` runs on pyslash until
its input is read. `copies` has no state, and no name in Spark, `lists` is not covered, `stranded` finds that executors
cannot start an agent, and `broken` fails. `clicks` has two stateful operators and never ends, and `waiting` waits for
rows. Once the others have ended, it writes `ready.json`; and it stops when its standard input ends.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

import pyslash
from eval.watch import everything_shown
from tests.support.jvm import end
from tests.support.quiet_files import SETTINGS, quiet_files
from tests.support.stream import Stream, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
BATCHES, ROWS, KEYS, RETAINED = 12, 20_000, 500, 10
LISTS = "lists <i>of values</i>"
ALIKE = ("заказы", "оплаты")  # in what metrics systems take of names


@dataclass
class Ready:
    """What the application has done by the time that somebody looks."""

    application: str
    url: str
    runs: dict[str, str]
    copies: str
    """The name of `copies` in the tab: the first part of its id."""
    progress: list[dict[str, Any]]
    """Of `orders`: the epochs that are kept."""
    epochs: int

    @classmethod
    def read(cls, folder: Path) -> Ready:
        """What `main` has written."""
        return cls(**json.loads((folder / "ready.json").read_text()))


def session(folder: Path, port: int) -> SparkSession:
    """The application, its UI on that port of the loopback interface."""
    events = folder / "events"
    events.mkdir()
    settings = {
        **everything_shown(port, events),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.slash.arena.size": "64m",
        "spark.slash.progress.retained": str(RETAINED),
        **SETTINGS,
    }
    spark = SparkSession.builder.master("local[2]").appName("orders and clicks").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def window(*slide: str) -> Column:
    """Windows of 10 s."""
    return F.window("ts", "10 seconds", *slide)


def orders(spark: SparkSession, folder: Path, batches: int) -> DataFrame:
    """Micro-batches of a file each; some rows are late."""
    stream = Stream(spark, folder, SCHEMA, delay_seconds=5)
    for batch in range(batches):
        behind = [60 if i % 50 == 0 else 0 for i in range(ROWS)]
        table = {
            "ts": [seconds(1000 + 10 * batch + 10 * i / ROWS - behind[i]) for i in range(ROWS)],
            "k": [i * 7 % KEYS for i in range(ROWS)],
            "v": list(range(ROWS)),
        }
        stream.add(pa.table(table, SCHEMA))
    return stream.read()


def run(name: str, df: DataFrame) -> StreamingQuery:
    """The query over all that there is to read."""
    return finished(df.writeStream.queryName(name))


def finished(writer: DataStreamWriter) -> StreamingQuery:
    """The query that it starts, over all that there is to read."""
    query = writer.format("noop").trigger(availableNow=True).start()
    assert query.awaitTermination(900)
    return query


def fail(name: str, df: DataFrame) -> StreamingQuery:
    """A query whose function raises."""

    def raises(batch: DataFrame, epoch: int) -> None:
        raise ValueError("the job's own function <raises> this")

    query = df.writeStream.queryName(name).foreachBatch(raises).trigger(availableNow=True).start()
    with suppress(StreamingQueryException):
        query.awaitTermination(900)
    return query


def main(folder: Path, port: int) -> None:
    """Run the queries, and stay until nobody looks any more."""
    spark = session(folder, port)
    pyslash.enable(spark)
    with quiet_files(spark):
        rows, few = orders(spark, folder / "orders", BATCHES), orders(spark, folder / "few", 1)
        clicks = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
        clicks = clicks.withWatermark("timestamp", "1 second").groupBy(F.window("timestamp", "2 seconds")).count()
        clicks = clicks.groupBy(F.window(F.window_time("window"), "6 seconds")).agg(F.sum("count"))
        python, spark.sparkContext.pythonExec = spark.sparkContext.pythonExec, "/bin/false"
        spark.conf.set("spark.slash.agent.startTimeout", "5")
        queries = {"stranded": run("stranded", few.groupBy(window(), "k").count())}
        spark.sparkContext.pythonExec = python
        spark.conf.unset("spark.slash.agent.startTimeout")
        queries[LISTS] = run(LISTS, few.groupBy(F.session_window("ts", "5 seconds"), "k").agg(F.collect_list("v")))
        queries["copies"] = finished(few.writeStream)
        queries["broken"] = fail("broken", few.groupBy(window(), "k").count())
        for name in ALIKE:
            queries[name] = run(name, few.groupBy(window(), "k").count())
        queries["orders"] = run("orders", rows.groupBy(window(), "k").agg(F.count("*"), F.sum("v")))
        (folder / "nothing").mkdir()
        nothing = spark.readStream.schema("ts timestamp, k long").parquet(str(folder / "nothing"))
        counted = nothing.withWatermark("ts", "1 second").groupBy(window(), "k").count()
        queries["waiting"] = counted.writeStream.queryName("waiting").format("noop").start()
        writer = clicks.writeStream.queryName("clicks").format("noop").trigger(processingTime="500 milliseconds")
        queries["clicks"] = writer.start()
        while not any(done["merged_rows"] for done in pyslash.progress(queries["clicks"])):
            assert not queries["clicks"].awaitTermination(1)
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        ready = Ready(
            spark.sparkContext.applicationId,
            f"http://127.0.0.1:{port}",
            {name: str(query.runId) for name, query in queries.items()},
            str(queries["copies"].id)[:8],
            pyslash.progress(queries["orders"]),
            queries["orders"].lastProgress["batchId"] + 1,
        )
        hidden = folder / "ready.new"
        hidden.write_text(json.dumps(asdict(ready)))
        hidden.rename(folder / "ready.json")
        sys.stdin.read()
        queries["clicks"].stop()
        queries["waiting"].stop()
    end(spark)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
