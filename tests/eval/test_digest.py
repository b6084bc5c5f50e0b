"""Digests: any row that is missing, doubled or changed moves them; the order of rows does not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eval import digest
from eval.digest import Digest

START = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = "at timestamp, name string, id binary, low bigint, high bigint"
ROWS = [(START, "a", b"\x01", 1, None), (START, "b", b"\x02", None, 1), (START, None, None, 2**62, -(2**62))]


def of(spark: SparkSession, rows: list[tuple]) -> Digest:
    return digest.digest(spark.createDataFrame(rows, SCHEMA))


@pytest.fixture(scope="module")
def whole(spark: SparkSession) -> Digest:
    return of(spark, ROWS)


def test_order_and_cut_do_not_matter(spark: SparkSession, whole: Digest) -> None:
    assert whole.rows == 3
    assert of(spark, ROWS[::-1]) == whole
    assert of(spark, ROWS[:1]) + of(spark, ROWS[1:]) == whole
    assert of(spark, []) == Digest()


@pytest.mark.parametrize(
    "wrong",
    [
        ROWS[1:],
        [*ROWS, ROWS[0]],
        [ROWS[0], ROWS[0], ROWS[2]],
        [*ROWS[1:], (START, "a", b"\x01", None, 1)],
        [*ROWS[1:], (START, "a", b"\x01", 1, 0)],
        [*ROWS[1:], (START, None, b"\x01", 1, None)],
        [*ROWS[:2], (START, None, None, -(2**62), 2**62)],
    ],
    ids=["missing", "twice", "one-for-another", "moved-null", "null", "key", "swapped"],
)
def test_anything_else_does(spark: SparkSession, whole: Digest, wrong: list[tuple]) -> None:
    assert of(spark, wrong) != whole


def test_rows_that_are_near_each_other_have_none(spark: SparkSession) -> None:
    assert digest.exact(spark.createDataFrame([], SCHEMA).schema)
    assert not digest.exact(spark.createDataFrame([], "key bigint, mean double").schema)


def test_micro_batches_count_where_the_oracle_tells_them_apart(tmp_path: Path) -> None:
    one, two = Digest(1, 2, 3), Digest(10, 20, 30)
    digest.write(tmp_path, [(0, one), (1, Digest()), (2, two)])
    stream = digest.read(tmp_path)
    batch: digest.Digests = [(None, one + two)]
    assert digest.agree([(0, one), (2, two), (3, Digest())], stream)
    assert digest.agree([(1, two), (7, one)], batch)
    assert not digest.agree([(1, two), (7, one)], stream)
    assert not digest.agree([(0, one), (2, two), (2, two)], stream)
    assert not digest.agree([(0, one)], batch)
