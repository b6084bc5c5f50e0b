"""A checkpoint that an earlier version of pyslash, or of Spark, has left, continued by this one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.spark.session import changed
from pyslash.state.backfill import Backfills
from tests.support.attempt import attempt
from tests.support.backfilled import Case, rows_of
from tests.support.old_checkpoint import BATCHES, BEFORE, SCHEMA, add, query, unpacked
from tests.support.stream import Stream


@pytest.mark.parametrize("now", [BEFORE, ("avg(v)", "first(d)", "count(v)")], ids=["the same query", "a changed one"])
def test_a_checkpoint_of_manifests_of_format_6_continues(
    spark: SparkSession, tmp_path: Path, now: tuple[str, ...]
) -> None:
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=10)
    add(stream, BATCHES)
    checkpoint = unpacked("manifests-6.tar.gz", tmp_path, tmp_path / "in")
    attempt(query(stream, *now), tmp_path / "spark", "off")
    add(stream, 2)
    found = attempt(query(stream, *now), checkpoint)
    expected = attempt(query(stream, *now), tmp_path / "spark", "off")
    assert found.error is None
    assert found.ran_on_pyslash
    assert found.batches == expected.batches
    assert any(rows for _, rows in found.batches)


# What Spark 4.3 has begun to do otherwise, with queries that it starts itself.
_OF_EARLIER_RELEASES = {
    "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled": "false",
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled": "false",
}


def _never_null(rows: DataFrame) -> DataFrame:
    key = F.coalesce("k", F.lit("none")).alias("key")
    return rows.groupBy(F.window("ts", "20 seconds"), key).agg(F.min("v"), F.max(F.struct("v", "k")))


def _unique(rows: DataFrame) -> DataFrame:
    """By so many keys that Spark has ordered them by their names' hashes."""
    whole = rows.drop("d")  # before 4.3, a floating number is no key that pyslash has
    return whole.withColumns({f"n{i}": F.coalesce("v", F.lit(i)) for i in range(6)}).dropDuplicates()


def _of_unique_rows(rows: DataFrame) -> DataFrame:
    return _never_null(_unique(rows))


@pytest.mark.parametrize("made", [_never_null, _unique, _of_unique_rows])
def test_a_query_goes_on_by_the_settings_of_spark_that_it_began_with(
    spark: SparkSession, tmp_path: Path, made: Callable[[DataFrame], DataFrame]
) -> None:
    """Spark keeps them in its log, and plans the micro-batches of later releases by them."""
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=10)
    add(stream, BATCHES)
    with changed(spark, _OF_EARLIER_RELEASES):
        for place, mode in (("ours", "require"), ("plain", "off")):
            assert attempt(made(stream.read()), tmp_path / place, mode).error is None
    add(stream, 2)
    found = attempt(made(stream.read()), tmp_path / "ours")
    assert found.error is None
    assert found.ran_on_pyslash
    assert found.batches == attempt(made(stream.read()), tmp_path / "plain", "off").batches
    assert any(rows for _, rows in found.batches)


def test_so_does_what_is_backfilled(spark: SparkSession, tmp_path: Path) -> None:
    def job(rows: DataFrame) -> DataFrame:
        key = F.coalesce("k", F.lit("none")).alias("key")
        return rows.groupBy(F.window("ts", "10 seconds"), key).agg(F.sum("v"))

    case = Case(spark, tmp_path, job)
    with changed(spark, _OF_EARLIER_RELEASES):
        before = case.run()
    case.backfill()
    case.later()
    after = case.run()
    assert Backfills(str(case.checkpoint)).refusal("history") is None
    assert rows_of([before, after]) == rows_of(case.expected())
