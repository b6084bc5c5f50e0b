"""Averages of integers: Spark's bits up to 2^53; beyond, the exact quotient, where Spark's depends on row order."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.stream import Stream, run, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
WINDOW = "10 seconds"


def averages(spark: SparkSession, folder: Path, groups: list[tuple[int, ...]]) -> tuple[list[Any], list[Any]]:
    """Of each group of values, in their order: by Spark in one task, and by pyslash."""
    rows = [(key, value) for key, values in enumerate(groups) for value in values]
    stream = Stream(spark, folder, SCHEMA, delay_seconds=0)
    keys, values = zip(*rows, strict=True)
    stream.add(pa.table({"ts": [seconds(1000)] * len(rows), "k": keys, "v": values}, SCHEMA))
    stream.add(pa.table({"ts": [seconds(5000)], "k": [0], "v": [0]}, SCHEMA))

    def average(frame: DataFrame) -> DataFrame:
        return frame.groupBy(F.window("ts", WINDOW), "k").agg(F.avg("v"))

    batch = spark.read.parquet(str(folder / "in" / "0000.parquet")).coalesce(1)
    expected, found = average(batch).collect(), run(average(stream.read()), folder).rows
    return [row[2] for row in sorted(expected)], [row[2] for row in sorted(found)]


def test_no_addition_rounds_up_to_2_53(spark: SparkSession, tmp_path: Path) -> None:
    large = 2**52 - 1
    groups = [(large, 1, 2, -large + 7), (large, large), (-large, 3, -5), (1, 1, 0), (2**53,), tuple(range(1000))]
    expected, found = averages(spark, tmp_path, groups)
    assert [average.hex() for average in found] == [average.hex() for average in expected]


def test_beyond_it_spark_answers_by_the_order_of_rows(spark: SparkSession, tmp_path: Path) -> None:
    expected, found = averages(spark, tmp_path, list(permutations((2**62, 1, -(2**62)))))
    assert sorted(expected) == [0.0] * 4 + [1 / 3] * 2
    assert found == [1 / 3] * 6
