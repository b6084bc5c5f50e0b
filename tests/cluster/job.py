"""One application on a master of its own: streams on pyslash against the oracle.

    python -m tests.cluster.job MASTER FOLDER

Standard input has a variant of the stream a line, as a JSON object: keys of spark.slash.*, output=MODE, query=windows,
sessions, unique, joined or chained, and fault=retry or fault=straggle, which befalls a task a batch, or fault=kill,
which ends an executor after the second one. The answer is a line of standard output that begins with FOUND.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tests.support.jvm import SMALL_PAGES
from tests.support.stream import Stream, differences, run, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("s", pa.string()), ("v", pa.int64())])
ROWS = 4000


def in_first_attempt(key: int) -> bool:
    """Somewhere in the middle of the rows of one task of a batch, if nobody has tried it before."""
    task = TaskContext.get()
    assert task is not None
    return key == 499 and task.partitionId() == 0 and task.attemptNumber() == 0


def fail(key: int) -> int:
    """The task fails; Spark tries it again."""
    if in_first_attempt(key):
        raise RuntimeError("the first attempt fails")
    return key


def straggle(key: int) -> int:
    """The task hangs; Spark starts a second attempt elsewhere, and kills this one when that is done."""
    if in_first_attempt(key):
        time.sleep(300)
    return key


FAULTS = {"retry": fail, "straggle": straggle}
KILLED_AFTER = 1
FOUND = "found: "  # before the JSON of a variant's findings


def kill_executor(spark: SparkSession, epoch: int) -> None:
    """After that micro-batch, with all that it keeps."""
    if epoch != KILLED_AFTER:
        return
    application = str(spark.sparkContext.applicationId).encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"CoarseGrainedExecutorBackend" in command and application in command:
            os.kill(int(process.name), signal.SIGKILL)
            return
    raise RuntimeError("there is no executor to kill")


def differing(found: list[list[Any]], expected: list[list[Any]]) -> Iterator[str]:
    """Lines for a reader: micro-batches that are not the same."""
    if len(found) != len(expected):
        yield f"{len(found)} micro-batches, not {len(expected)}"
    for batch, (ours, sparks) in enumerate(zip(found, expected, strict=False)):
        yield from (f"batch {batch}: {line}" for line in differences(ours, sparks, 1))


def joined(rows: DataFrame) -> DataFrame:
    """Each row with those of its key a second later, or with none."""
    later = rows.select(F.col("ts").alias("later"), F.col("k").alias("of"), F.col("v").alias("next"))
    near = F.expr("k = of AND later BETWEEN ts + INTERVAL 1 SECOND AND ts + INTERVAL 2 SECONDS")
    return rows.join(later, near, "left_outer").select(F.struct("ts", "later").alias("at"), "k", "v", "next")


def unique_in_windows(rows: DataFrame) -> DataFrame:
    """Windows of the rows that a deduplication leaves: every row comes twice, to tasks of their own."""
    left = rows.union(rows).select("ts", "k", "s").dropDuplicates(["ts", "k"])
    return left.groupBy(F.window("ts", "10 seconds", "5 seconds"), "k").agg(F.count("*"), F.max("s"))


def main(master: str, folder: Path) -> None:
    """Run the stream once for each line of standard input."""
    spark = (
        SparkSession.builder.master(master)
        .appName("pyslash cluster test")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.files.maxPartitionBytes", "16k")  # several tasks a batch, so that both executors have some
        .config("spark.slash.arena.size", "128m")
        .config("spark.speculation", "true")
        .config("spark.speculation.interval", "200ms")
        .config("spark.speculation.quantile", "0.2")
        .config("spark.speculation.multiplier", "3")
        # Longer than an agent takes to start on a busy machine, or all tasks would run on the other executor.
        .config("spark.speculation.minTaskRuntime", "20s")
        .config("spark.cores.max", "2")  # both executors, before the first job starts
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "120s")
        .config(map=SMALL_PAGES)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    stream = Stream(spark, folder, SCHEMA, delay_seconds=1)
    for batch in range(4):
        table = {
            "ts": [seconds(1000 + 10 * batch + i / ROWS * 10) for i in range(ROWS)],
            "k": [i * 7 % 500 for i in range(ROWS)],
            "s": [f"name {i % 11}" for i in range(ROWS)],
            "v": [i * batch for i in range(ROWS)],
        }
        stream.add(pa.table(table, SCHEMA))
    window = F.window("ts", "10 seconds", "5 seconds")
    calls = [F.sum("v"), F.count("*"), F.max("s"), F.avg("v")]

    # Keys that are equal come 0.18 s apart at the least, so that both executors have parts of most sessions.
    sessions = F.session_window("ts", "1 second"), F.when(F.col("k") < 400, F.col("k") % 50).otherwise(F.col("k"))
    queries: dict[str, Callable[[DataFrame], DataFrame]] = {
        "windows": lambda rows: rows.groupBy(window, "k").agg(*calls),
        "sessions": lambda rows: rows.groupBy(sessions[0], sessions[1].alias("k")).agg(*calls),
        "joined": joined,
        "chained": unique_in_windows,
        "unique": lambda rows: rows.select("k", (F.col("v") % 1000).alias("w")).dropDuplicates(),
    }
    expected: dict[tuple[str, str], list[list[Row]]] = {}
    for index, line in enumerate(sys.stdin):
        conf = json.loads(line)
        rows = stream.read()
        output, fault = conf.pop("output", "append"), conf.pop("fault", None)
        asked = conf.pop("query", "windows")
        query = queries[asked]
        if (asked, output) not in expected:
            expected[asked, output] = stream.expected_batches(query, output)
        if fault in FAULTS:
            rows = rows.withColumn("k", F.udf(FAULTS[fault], "bigint")("k"))
        after = partial(kill_executor, spark) if fault == "kill" else lambda _: None
        outcome = run(query(rows), folder / f"variant-{index}", output, after, **conf)
        found = {
            "rows": len(outcome.rows),
            "differences": list(differing(outcome.batches, expected[asked, output]))[:5],
            "agents": max(figures["agents"] for figures in outcome.progress),
            "operators": sorted({figures["operator"] for figures in outcome.progress}),
            "merged_by": sorted({figures["merged_by"] for figures in outcome.progress}),
            "bytes_read": {
                name: sum(figures["bytes_read"].get(name, 0) for figures in outcome.progress) for name in ("shm", "tcp")
            },
        }
        print(FOUND + json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
