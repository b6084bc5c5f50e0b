"""Executors fold an epoch's blocks before they are stored and read: the rows, late rows and figures stay Spark's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.stream import Stream, run, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("s", pa.string()), ("v", pa.int64())])
BATCHES, ROWS, KEYS, TASKS = 3, 4000, 40, 6


def batch(number: int) -> pa.Table:
    """Some of its rows come after their windows, which Spark drops from the third batch on."""
    times = [seconds(900 if number and i % 50 == 0 else 1000 + 20 * number + i / ROWS * 20) for i in range(ROWS)]
    keys = [i % KEYS for i in range(ROWS)]
    return pa.table({"ts": times, "k": keys, "s": [f"key {key}" for key in keys], "v": list(range(ROWS))}, SCHEMA)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    made = Stream(spark, tmp_path, SCHEMA, delay_seconds=5)
    for number in range(BATCHES):
        made.add(batch(number))
    made.add(pa.table({"ts": [seconds(5000)], "k": [0], "s": ["key 0"], "v": [0]}, SCHEMA))
    return made


def windows(rows: DataFrame) -> DataFrame:
    found = rows.groupBy(F.window("ts", "10 seconds", "5 seconds"), "k", "s")
    return found.agg(F.sum("v"), F.count("*"), F.avg("v"), F.max_by("s", "v"))


def keys(rows: DataFrame) -> DataFrame:
    return rows.groupBy("s").agg(F.sum("v"), F.approx_count_distinct("k"))


def distinct(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["ts", "s"]).select("ts", "s")


@pytest.mark.parametrize(
    ("job", "output"), [(windows, "append"), (windows, "update"), (keys, "update"), (distinct, "append")]
)
def test_micro_batches_are_sparks(
    stream: Stream, tmp_path: Path, job: Callable[[DataFrame], DataFrame], output: str
) -> None:
    found = run(job(stream.read().repartition(TASKS)), tmp_path, output, **{"fold.blocks": "1"})
    expected = stream.expected_batches(job, output)
    assert [sorted(map(repr, rows)) for rows in found.batches] == [sorted(map(repr, rows)) for rows in expected]
    folded = [one["folded"] for one in found.progress]
    assert folded[0] == TASKS
    assert found.progress[0]["folded_into_bytes"] < found.progress[0]["folded_bytes"]

    assert found.progress[0]["blocks"] < TASKS
