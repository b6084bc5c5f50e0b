"""Deduplications that are written in another way when they start again, against plain Spark and the query as it was."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.streaming.test_within_watermark import add, made
from tests.support.attempt import attempt

FUNCTIONS = pytest.mark.parametrize("unique", ["dropDuplicates", "dropDuplicatesWithinWatermark"])
Written = tuple[Sequence[str], Sequence[str]]  # the columns of the rows, and those that they are unique by


def restarted(spark: SparkSession, folder: Path, unique: str, ours: list[Written], sparks: list[Written]) -> int:
    """Pass if each start of pyslash gives the rows of Spark's; how many rows that is."""
    stream, generator, emitted = made(spark, folder, seed=9, batches=2), random.Random(10), 0

    def query(written: Written) -> DataFrame:
        columns, keys = written
        # Names in order: the rows of two starts differ in what they hold alone.
        return getattr(stream.read().select(*columns), unique)(keys).select(*sorted(columns))

    for start, (own, plain) in enumerate(zip(ours, sparks, strict=True)):
        found = attempt(query(own), folder / "ours")
        assert found.error is None
        assert found.ran_on_pyslash
        assert found.batches == attempt(query(plain), folder / "plain", "off").batches
        emitted += sum(len(rows) for _, rows in found.batches)
        add(stream, generator, 1030 + 5 * start)
    return emitted


@FUNCTIONS
@pytest.mark.parametrize("keys", [["k", "s"], ["k", "s", "ts"]], ids="-".join)
def test_keys_may_be_named_in_another_order(spark: SparkSession, tmp_path: Path, unique: str, keys: list[str]) -> None:
    """Plain Spark goes by their places: it refuses other types there, and takes values of one for those of another."""
    columns = ["ts", "k", "s", "v"]
    ours = [(columns, keys), (columns, keys[::-1]), (columns, keys)]
    assert restarted(spark, tmp_path, unique, ours, [(columns, keys)] * 3) > 100


@FUNCTIONS
def test_there_may_be_other_columns_beside_the_keys(spark: SparkSession, tmp_path: Path, unique: str) -> None:
    written = [(columns.split(), ["k"]) for columns in ("ts k s v", "ts k s", "v ts k", "ts k")]
    assert restarted(spark, tmp_path, unique, written, written) > 40


@FUNCTIONS
def test_both_may_change_at_once(spark: SparkSession, tmp_path: Path, unique: str) -> None:
    ours: list[Written] = [(["ts", "k", "s"], ["k", "s"]), (["v", "s", "ts", "k"], ["s", "k"])]
    assert restarted(spark, tmp_path, unique, ours, [ours[0], (ours[1][0], ["k", "s"])]) > 80
