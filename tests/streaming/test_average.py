"""Averages, of integers: Spark's bits up to 2^53; beyond, the exact quotient, where Spark's depends on row order."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.stream import Stream, run, seconds

INTEGER = pa.int64()
WINDOW = "10 seconds"


def averages(
    spark: SparkSession, folder: Path, groups: Sequence[Sequence[Any]], kind: pa.DataType = INTEGER
) -> tuple[list[Any], list[Any]]:
    """Of each group of values, in their order: by Spark in one task, and by pyslash."""
    rows = [(key, value) for key, values in enumerate(groups) for value in values]
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", kind)])
    stream = Stream(spark, folder, schema, delay_seconds=0)
    keys, values = zip(*rows, strict=True)
    stream.add(pa.table({"ts": [seconds(1000)] * len(rows), "k": keys, "v": pa.array(values, kind)}, schema))
    stream.add(pa.table({"ts": [seconds(5000)], "k": [0], "v": pa.array([None], kind)}, schema))

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


def test_a_quotient_of_decimals_is_rounded_once(spark: SparkSession, tmp_path: Path) -> None:
    """5/11 of the last place is no half of it first."""
    units = [(sum_of, count) for count in (11, 20, 21, 29) for sum_of in range(-count, count)]
    groups = [[Decimal(sum_of if place == 0 else 0).scaleb(-38) for place in range(count)] for sum_of, count in units]
    expected, found = averages(spark, tmp_path, groups, pa.decimal128(38, 38))
    assert found == expected
    assert {abs(average).scaleb(38) for average in expected} == {0, 1}
