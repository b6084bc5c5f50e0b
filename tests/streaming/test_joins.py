"""Joins of two streams against plain Spark over the same micro-batches: types of joins, watermarks, conditions, restarts."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.streaming.ran import Ran, ran
from tests.streaming.stream import Stream, seconds

SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64()), ("name", pa.string())]
)
Join = Callable[[DataFrame, DataFrame], DataFrame]


def add(stream: Stream, generator: random.Random, at: float, rows: int = 60, keys: int = 12) -> None:
    """Rows around a time, out of order: some late, some without a time, a key or a value."""

    def row() -> tuple[object, ...]:
        late = generator.random() < 0.15
        time = at + (generator.uniform(-60, -15) if late else generator.uniform(-12, 12))
        return (
            None if generator.random() < 0.03 else seconds(round(time, generator.choice((0, 3)))),
            generator.choice((None, *range(keys))),
            generator.choice((None, *range(20))),
            generator.choice((None, "", "a", "a much longer name")),
        )

    table = [row() for _ in range(rows)]
    stream.add(pa.table([[row[i] for row in table] for i in range(4)], SCHEMA))


def made(spark: SparkSession, folder: Path, seed: int = 7, batches: int = 5) -> tuple[Stream, Stream]:
    """Both sides, with as many micro-batches."""
    generator = random.Random(seed)
    sides = []
    for side in ("left", "right"):
        (folder / side).mkdir(exist_ok=True)
        stream = Stream(spark, folder / side, SCHEMA, delay_seconds=10)
        for batch in range(batches):
            add(stream, generator, 1000 + 15 * batch)
        sides.append(stream)
    return sides[0], sides[1]


def sides(left: DataFrame, right: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Columns that differ in their names."""
    return left, right.select(*(F.col(name).alias(f"r_{name}") for name in right.columns))


def within(how: str) -> Join:
    """Rows of a key of which the right one comes some seconds before or after the left one."""

    def join(left: DataFrame, right: DataFrame) -> DataFrame:
        left, right = sides(left, right)
        near = F.expr("k = r_k AND r_ts BETWEEN ts - INTERVAL 8 SECONDS AND ts + INTERVAL 13 SECONDS AND (v + r_v) % 3 > 0")
        return left.join(right, near, how)

    return join


def of_window(how: str) -> Join:
    """Rows of a key and of the same window."""

    def join(left: DataFrame, right: DataFrame) -> DataFrame:
        window = F.window("ts", "10 seconds").alias("w")
        left, right = sides(*(side.select(window, "k", "v", "name") for side in (left, right)))
        return left.join(right, F.expr("k = r_k AND w = r_w AND v >= r_v AND v > 3 AND r_v > 0"), how)

    return join


def run(spark: SparkSession, folder: Path, join: Join, mode: str, output: str = "append", **conf: str) -> Ran:
    left, right = (Stream(spark, folder / side, SCHEMA, 10).read() for side in ("left", "right"))
    return ran(left, folder, lambda rows: join(rows, right), output, mode, **conf)


@pytest.mark.parametrize("how", ["inner", "left_outer", "right_outer", "full_outer", "left_semi"])
@pytest.mark.parametrize("join", [within, of_window], ids=["within", "window"])
def test_micro_batches_are_sparks(spark: SparkSession, tmp_path: Path, join: Any, how: str) -> None:
    made(spark, tmp_path)
    expected = run(spark, tmp_path, join(how), "off")
    assert sum(map(len, expected.batches)) > 20
    found = run(spark, tmp_path, join(how), "require")
    assert found.batches == expected.batches
