"""`spark.slash.early`: windows are emitted in the micro-batch that moves the watermark past them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.errors import UnsupportedQueryError
from tests.support.attempt import BATCHES, Attempt, attempt, make_stream, settings

MOVED = 1  # the batch that moves the watermark past the first window


def sums(df: DataFrame) -> DataFrame:
    df = df.groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v").alias("s"))
    return df.select(F.unix_seconds("window.start").alias("start"), "k", "s")


def batch_of(found: Attempt, start: int, key: str) -> tuple[int, str]:
    """The batch that emits a group, and the group."""
    (one,) = [
        (batch, row) for batch, rows in found.batches for row in rows if row.startswith(f"Row(start={start}, k='{key}'")
    ]
    return one


def test_the_default_gives_sparks_batches(spark: SparkSession, tmp_path: Path) -> None:
    stream = make_stream(spark, tmp_path, BATCHES)
    spark_only = attempt(sums(stream.read()), tmp_path / "spark", "off")
    ours = attempt(sums(stream.read()), tmp_path / "ours")
    assert ours.batches == spark_only.batches
    assert ours.watermarks == spark_only.watermarks


def test_early_emits_one_batch_sooner_and_drops_what_spark_still_counts(spark: SparkSession, tmp_path: Path) -> None:
    stream = make_stream(spark, tmp_path, BATCHES)
    spark_only = attempt(sums(stream.read()), tmp_path / "spark", "off")
    early = attempt(sums(stream.read()), tmp_path / "early", early="true")
    assert batch_of(spark_only, 1000, "a") == (MOVED + 1, "Row(start=1000, k='a', s=37)")
    assert batch_of(early, 1000, "a") == (MOVED, "Row(start=1000, k='a', s=37)")
    # The row at 1012 comes in the batch in which Spark closes its window, and is the only one there.
    assert batch_of(spark_only, 1010, "a") == (MOVED + 1, "Row(start=1010, k='a', s=64)")
    assert not [row for _, rows in early.batches for row in rows if "start=1010" in row]
    assert early.watermarks == spark_only.watermarks  # no-data batches among them


def test_several_watermarks_are_refused_at_start(spark: SparkSession, tmp_path: Path) -> None:
    stream = make_stream(spark, tmp_path, BATCHES[:2])
    rows = stream.read().withWatermark("other", "5 seconds")
    both = rows.groupBy(F.window("other", "10 seconds"), "k").agg(F.sum("v"))
    with pytest.raises(UnsupportedQueryError, match="this one has 2"):
        attempt(both, tmp_path / "require", early="true")
    with settings(spark, {"spark.sql.streaming.statefulOperator.allowMultiple": "false"}):  # else Spark refuses too
        spark_only = attempt(both, tmp_path / "spark", "off")
        left = attempt(both, tmp_path / "left", "auto", early="true")
    assert left.batches == spark_only.batches
    assert any(rows for _, rows in left.batches)
    assert not left.ran_on_pyslash


def test_no_window_comes_twice_when_early_is_set_or_unset(spark: SparkSession, tmp_path: Path) -> None:
    stream = make_stream(spark, tmp_path, BATCHES[:2])
    batches = attempt(sums(stream.read()), tmp_path / "c", early="true").batches
    stream = make_stream(spark, tmp_path, BATCHES)
    batches += attempt(sums(stream.read()), tmp_path / "c").batches
    groups = [row.split(" s=")[0] for _, rows in batches for row in rows]
    assert len(groups) == len(set(groups)) > 0
