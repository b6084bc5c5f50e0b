"""A stream joined with a static table: Spark plans it adaptively, in stages, and the watermark lies inside one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.streaming.stream import Stream, differences, run, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])


def test_windows_close_behind_a_broadcast_join(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=1)
    for batch in range(3):
        times = [seconds(1000 + 10 * batch + i / 10) for i in range(100)]
        stream.add(pa.table({"ts": times, "k": [i % 7 for i in range(100)]}, SCHEMA))
    names = spark.range(5).select(F.col("id").alias("k"), F.concat(F.lit("name "), "id").alias("name"))
    window = F.window("ts", "10 seconds")
    joined = stream.read().join(F.broadcast(names), "k").groupBy(window, "name").count()
    outcome = run(joined, tmp_path)
    batches = [spark.read.parquet(str(tmp_path / "in" / f"{index:04d}.parquet")) for index in range(2)]
    rows = batches[0].unionByName(batches[1])
    expected = rows.join(names, "k").groupBy(window, "name").count().collect()
    assert len(expected) == 10
    assert list(differences(outcome.rows, expected, 1)) == []
