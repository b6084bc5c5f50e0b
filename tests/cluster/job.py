"""One application on a master of its own: streams on pyslash against the oracle; prints what it found as JSON.

python -m tests.cluster.job MASTER FOLDER VARIANT...   a variant: key=value[,key=value...] of spark.slash.*, and
                                                        fault=retry or fault=straggle, which befalls a task a batch
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.streaming.stream import Stream, differences, run, seconds

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


def main(master: str, folder: Path, variants: list[dict[str, str]]) -> None:
    """Run the stream once for each variant and print the list of findings on the last line."""
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
        .config("spark.speculation.minTaskRuntime", "5s")
        .config("spark.cores.max", "2")  # both executors, before the first job starts
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "120s")
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
    expected = stream.expected(window, [F.col("k")], calls)
    findings = []
    for index, conf in enumerate(variants):
        rows = stream.read()
        print(f"variant {index}: {conf}", flush=True)
        if fault := conf.pop("fault", None):
            rows = rows.withColumn("k", F.udf(FAULTS[fault], "bigint")("k"))
        query = rows.groupBy(window, "k").agg(*calls)
        outcome = run(query, folder / f"variant-{index}", **conf)
        findings.append(
            {
                "rows": len(outcome.rows),
                "differences": list(differences(outcome.rows, expected, 1))[:5],
                "agents": max(figures["agents"] for figures in outcome.progress),
                "merged_by": sorted({figures["merged_by"] for figures in outcome.progress}),
                "bytes_read": {
                    name: sum(figures["bytes_read"].get(name, 0) for figures in outcome.progress)
                    for name in ("shm", "tcp")
                },
            }
        )
    print(json.dumps(findings))
    spark.stop()


if __name__ == "__main__":
    given = [dict(pair.split("=", 1) for pair in variant.split(",")) for variant in sys.argv[3:]]
    main(sys.argv[1], Path(sys.argv[2]), given)
