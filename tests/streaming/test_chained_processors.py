"""Processors in Python below, above and beside other stateful operators, against plain Spark."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.cluster.coordinator import Coordinator
from pyslash.driver.start import hook
from tests.streaming.test_chains import SCHEMA, BetweenOperatorsError, add, after_the_first, by_window, unique
from tests.support.frames import applied, over_frames, remembering_groups, transformed_frames
from tests.support.nightly import some_at_night
from tests.support.processors import PROCESSORS, counted_by_time, counting, remembering, transformed
from tests.support.ran import Query, ran
from tests.support.stream import Stream

pytestmark = PROCESSORS
DELAY = 10


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """Micro-batches of which each has rows of keys and windows of those before."""
    made = Stream(spark, tmp_path, SCHEMA, DELAY)
    generator = random.Random(17)
    for batch in range(5):
        add(made, generator, 1000 + 15 * batch, rows=60)
    return made


def windows_of(rows: DataFrame) -> DataFrame:
    """Of what a processor gives."""
    return by_window(rows.withColumnRenamed("total", "v"), "20 seconds", "k")


def windows_first(rows: DataFrame) -> DataFrame:
    windows = by_window(rows, "20 seconds", "k").select(F.window_time("window").alias("ts"), "k", F.col("n").alias("v"))
    return counted_by_time(windows)


def groups_of_unique_rows(rows: DataFrame) -> DataFrame:
    named = unique(rows).withColumn("s", F.col("v").cast("string"))
    state, given = "rows long, total long", "k long, did string, gave string"
    return applied(named, remembering_groups(), "EventTimeTimeout", output=given, state=state)


def frames_of_unique_rows(rows: DataFrame) -> DataFrame:
    named = unique(rows).withColumn("s", F.col("v").cast("string"))
    given = "k long, did string, gave string"
    return transformed_frames(named, over_frames(remembering()), "EventTime", output=given)


def joined(rows: DataFrame) -> DataFrame:
    others = unique(rows).select(F.col("ts").alias("of"), F.col("k").alias("by"), "id")
    near = F.expr("k = by AND of BETWEEN ts - INTERVAL 5 SECONDS AND ts + INTERVAL 5 SECONDS")
    return counted_by_time(rows).join(others, near)


def side_by_side(rows: DataFrame) -> DataFrame:
    return counted_by_time(rows.where("v % 2 = 1")).union(counted_by_time(rows.where("v % 2 = 0")))


def joined_by_the_same_key(rows: DataFrame) -> DataFrame:
    """Spark shuffles rows for the join alone: they come together by the processor's key."""
    others = rows.select(F.col("ts").alias("of"), F.col("k").alias("by"))
    near = F.expr("k = by AND of BETWEEN ts - INTERVAL 5 SECONDS AND ts + INTERVAL 5 SECONDS")
    return counted_by_time(rows.join(others, near).select("ts", "k", "v"))


def of_unique_keys(rows: DataFrame) -> DataFrame:
    """The same, by a deduplication."""
    keys = rows.select((F.col("k") * 10 + F.col("v") % 10).alias("k")).dropDuplicates(["k"]).withColumn("v", F.lit(1))
    return transformed(keys, counting(), "None", output="k long, did string, gave string")


def of_the_same_rows(rows: DataFrame) -> DataFrame:
    """Spark shuffles them once."""
    return counted_by_time(rows).union(counted_by_time(rows))


def of_equal_rows(rows: DataFrame) -> DataFrame:
    """So it does here, though either processor's columns are its own."""
    first, second = (counted_by_time(rows.withColumn("k", F.col("k") + 1)) for _ in range(2))
    return first.union(second)


# The query, and how many operators with state it has.
QUERIES: dict[str, tuple[Query, int]] = {
    "a processor, then windows": (lambda rows: windows_of(counted_by_time(rows)), 2),
    "a processor, then windows, updated": (lambda rows: windows_of(counted_by_time(rows)), 2),
    "unique rows, then a processor": (lambda rows: counted_by_time(unique(rows)), 2),
    "windows, then a processor": (windows_first, 2),
    "two processors": (lambda rows: counted_by_time(counted_by_time(rows).withColumnRenamed("total", "v")), 2),
    "unique rows, a processor, windows": (lambda rows: windows_of(counted_by_time(unique(rows))), 3),
    "unique rows, then a group state": (groups_of_unique_rows, 2),
    "unique rows, then a processor of frames": (frames_of_unique_rows, 2),
    "a processor joined with unique rows": (joined, 3),
    "two processors side by side": (side_by_side, 2),
    "keys, then a processor by them": (of_unique_keys, 2),
    "a join, then a processor by its key": (joined_by_the_same_key, 2),
    "two processors of the same rows": (of_the_same_rows, 2),
    "two processors of equal rows": (of_equal_rows, 2),
}
QUICK = {"unique rows, a processor, windows", "unique rows, then a group state", "a join, then a processor by its key"}


@pytest.mark.parametrize("name", some_at_night(QUERIES, QUERIES.keys() - QUICK))
def test_each_micro_batch_has_sparks_rows(stream: Stream, name: str) -> None:
    query, operators = QUERIES[name]
    mode = "update" if name.endswith("updated") else "append"
    expected = ran(stream.read(), stream.folder, query, mode, "off")
    found = ran(stream.read(), stream.folder, query, mode, "require")
    assert found.batches == expected.batches
    assert sum(map(len, found.batches)) > 10
    assert {epoch["operator"] for epoch in found.progress} == set(range(operators))


def test_a_driver_that_fails_above_a_processor_runs_no_function_twice(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its rows lie in the processor's own blocks: the next start merges them, and has not counted them again."""
    query, _ = QUERIES["a processor, then windows"]
    expected = ran(stream.read(), stream.folder, query, "append", "off")

    def fail(coordinator: Coordinator) -> None:
        raise BetweenOperatorsError

    after_the_first(monkeypatch, fail)
    found: list[list[object]] = []
    with pytest.raises(StreamingQueryException, match="BetweenOperatorsError"):
        ran(stream.read(), stream.folder, query, "append", "require", found, durability="checkpoint")
    hook._sweep()
    last = ran(stream.read(), stream.folder, query, "append", "require", found, durability="checkpoint")
    assert found == expected.batches
    assert [epoch["replayed"] for epoch in last.progress if epoch["epoch"] == 3] == [True, False]
