"""One application on a master of its own: a stream on pyslash against the oracle; prints what it found as JSON.

python -m tests.cluster.job MASTER FOLDER [key=value of spark.slash.* ...]
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


def main(master: str, folder: Path, conf: dict[str, str]) -> None:
    """Run the stream and print the findings on the last line."""
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
    outcome = run(stream.read().groupBy(window, "k").agg(*calls), folder, **conf)
    expected = stream.oracle(window, [F.col("k")], calls).collect()
    print(
        json.dumps(
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
    )
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), dict(pair.split("=", 1) for pair in sys.argv[3:]))
