"""One application on a master of its own: streams on pyslash against the oracle; prints what it found as JSON.

python -m tests.cluster.job MASTER FOLDER VARIANT...   a variant: key=value[,key=value...] of spark.slash.*
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.streaming.stream import Stream, differences, run, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("s", pa.string()), ("v", pa.int64())])
ROWS = 4000


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
        .config("spark.cores.max", "2")  # both executors, before the first job starts
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "120s")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    stream = Stream(spark, folder, SCHEMA, delay_seconds=1)
    for batch in range(4):
        rows = range(ROWS)
        table = {
            "ts": [seconds(1000 + 10 * batch + i / ROWS * 10) for i in rows],
            "k": [i * 7 % 500 for i in rows],
            "s": [f"name {i % 11}" for i in rows],
            "v": [i * batch for i in rows],
        }
        stream.add(pa.table(table, SCHEMA))
    window = F.window("ts", "10 seconds", "5 seconds")
    calls = [F.sum("v"), F.count("*"), F.max("s"), F.avg("v")]
    expected = stream.oracle(window, [F.col("k")], calls).collect()
    findings = []
    for index, conf in enumerate(variants):
        query = stream.read().groupBy(window, "k").agg(*calls)
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
