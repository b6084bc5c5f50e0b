"""Python workers come and go between micro-batches; what they have written stays."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from tests.support.stream import Stream, differences, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])


def workers_of(spark: SparkSession) -> set[int]:
    """The processes that PySpark's daemons of this application have forked and that still run."""
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    daemons = [pid for pid in children_of(jvm) if b"pyspark.daemon" in command_of(pid)]
    return {worker for daemon in daemons for worker in children_of(daemon)}


def command_of(pid: int) -> bytes:
    with suppress(FileNotFoundError, ProcessLookupError):  # a process that has ended since
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has ended since
            found += map(int, (task / "children").read_text().split())
    return found


def test_state_outlives_the_workers_that_wrote_it(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=0)
    for _ in range(3):  # all of them in one window
        stream.add(
            pa.table({"ts": [seconds(1000 + i % 10) for i in range(40)], "k": [i % 3 for i in range(40)]}, SCHEMA)
        )
    stream.add(pa.table({"ts": [seconds(5000)], "k": [0]}, SCHEMA))
    window, calls = F.window("ts", "10 seconds"), [F.count("*")]
    found: list[Any] = []
    seen: list[set[int]] = []

    def sink(rows: DataFrame, epoch: int) -> None:
        found.extend(rows.collect())
        seen.append(workers_of(spark) - idle)

    idle = workers_of(spark)  # of earlier tests
    conf = spark._jsc.sc().conf()  # type: ignore[attr-defined]
    conf.set("spark.python.worker.reuse", "false")  # what the daemon does to idle workers after a minute
    pyslash.enable(spark)
    spark.conf.set("spark.slash.mode", "require")
    spark.conf.set("spark.slash.ingest", "files")
    try:
        writer = stream.read().groupBy(window, "k").agg(*calls).writeStream.foreachBatch(sink)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(900)
    finally:
        spark.conf.unset("spark.slash.ingest")
        spark.conf.unset("spark.slash.mode")
        conf.set("spark.python.worker.reuse", "true")
        pyslash.disable()
    assert len(seen) == 5  # the last one without input
    deadline = time.monotonic() + 30  # Spark keeps a worker that it means to use again for a minute
    while workers := set.union(*seen) & workers_of(spark):
        assert time.monotonic() < deadline, workers
        time.sleep(0.1)
    assert list(differences(found, stream.expected(window, [F.col("k")], calls), 1)) == []
