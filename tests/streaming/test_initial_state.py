"""Processors with an initial state against plain Spark over the same micro-batches."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from pyslash.driver.start import hook
from pyslash.spark.session import changed
from tests.streaming.test_frames import wide
from tests.streaming.test_processors import DELAY, SCHEMA, add, made, same
from tests.support.attempt import attempt, check_repeated
from tests.support.frames import over_frames, telling_frames, transformed_frames
from tests.support.processors import (
    OUTPUT,
    PROCESSORS,
    counting,
    program,
    struck_once,
    telling_rows,
    transformed,
    without_rows,
)
from tests.support.ran import Query
from tests.support.stream import Stream, seconds

pytestmark = PROCESSORS
MODES = ("None", "EventTime", "ProcessingTime")
KINDS = ("rows", "frames")
Initial = Callable[[SparkSession], GroupedData]


def initial(spark: SparkSession, seed: int = 1, rows: int = 20) -> GroupedData:
    """Keys with several rows, that no micro-batch has, and without a value; older than any row that is not late."""
    generator = random.Random(seed)
    values = [
        (seconds(-5), at, generator.randrange(100), generator.choice((None, "", *"abcdexyz"))) for at in range(rows)
    ]
    return spark.createDataFrame(values, "ts timestamp, place int, v long, name string").groupBy("name")


def of_kind(kind: str, processor: StatefulProcessor, time_mode: str = "None", begins: Initial = initial) -> Query:
    """A query by a processor of rows, of which one of frames is made."""
    if kind == "rows":
        return lambda rows: transformed(rows, processor, time_mode, initial=begins(rows.sparkSession))
    return lambda rows: transformed_frames(rows, over_frames(processor), time_mode, initial=begins(rows.sparkSession))


@pytest.mark.parametrize(
    ("seed", "time_mode", "kind"),
    [
        *((1, mode, "rows") for mode in MODES),
        (1, "EventTime", "frames"),
        *(
            pytest.param(seed, mode, kind, marks=pytest.mark.nightly)
            for kind in KINDS
            for mode in MODES
            for seed in range(2, 12)
        ),
    ],
)
def test_random_programs_are_sparks(spark: SparkSession, tmp_path: Path, seed: int, time_mode: str, kind: str) -> None:
    """Of keys that only the initial state has, timers tell: not those of each program."""
    query = of_kind(kind, program(seed, time_mode), time_mode, partial(initial, seed=seed))
    with changed(spark, without_rows(time_mode != "ProcessingTime")):
        batches = same(made(spark, tmp_path, seed), query)
    assert sum(map(len, batches)) > 100
    if time_mode != "None" and seed == 1:
        assert any(row.k in ("x", "y", "z") for batch in batches for row in batch)


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_that_starts_again_takes_no_initial_state(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    stream, generator = made(spark, tmp_path, batches=2), random.Random(4)
    for start in range(2):
        query = of_kind(kind, counting(), begins=partial(initial, seed=start))
        assert same(stream, query, "update", durability="checkpoint")
        hook._sweep()
        add(stream, generator, 1060 + 40 * start)


def test_a_first_epoch_that_comes_again_behind_its_manifest_has_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    check_repeated(made(spark, tmp_path, seed=5), of_kind("rows", counting()), tmp_path, epoch=0)


@pytest.mark.parametrize(
    ("kind", "kills", "error"),
    [("rows", False, "ValueError: not the first time"), ("frames", True, "Python worker exited unexpectedly")],
)
def test_a_first_epoch_that_fails_takes_the_initial_state_again(
    spark: SparkSession, tmp_path: Path, kind: str, kills: bool, error: str
) -> None:
    stream = made(spark, tmp_path, seed=6)
    expected = attempt(of_kind(kind, counting())(stream.read()), tmp_path / "plain", "off").batches
    query = of_kind(kind, struck_once(str(tmp_path / "struck"), counting(), kills))
    first = attempt(query(stream.read()), tmp_path / "ours")
    assert error in str(first.error)
    assert first.batches == []
    assert attempt(query(stream.read()), tmp_path / "ours").batches == expected


def empty(spark: SparkSession) -> GroupedData:
    return spark.createDataFrame([], "k string, v long").groupBy("k")


def summed(spark: SparkSession) -> GroupedData:
    """Rows that lie where their key does before Spark shuffles them for the processor."""
    rows = spark.createDataFrame([(key, at) for at, key in enumerate("abxabx")], "k string, v long")
    return rows.groupBy("k").agg(F.sum("v").alias("v")).groupBy("k")


def joined(spark: SparkSession) -> GroupedData:
    """Rows that are sorted by then, too."""
    rows = spark.createDataFrame([(key, at) for at, key in enumerate("abxabx")], "k string, v long")
    return rows.hint("merge").join(rows.select("k").distinct(), "k").groupBy("k")


@pytest.mark.parametrize("begins", [empty, summed, joined])
def test_an_initial_state_comes_of_any_plan(spark: SparkSession, tmp_path: Path, begins: Initial) -> None:
    assert same(made(spark, tmp_path, batches=2), of_kind("rows", counting(), begins=begins))


@pytest.mark.parametrize("kind", KINDS)
def test_calls_and_frames_have_as_many_rows_as_sparks(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """The only key of the initial state is the first one of the input: the two share a call, or a frame's rows."""
    stream = Stream(spark, tmp_path, SCHEMA, DELAY)
    for _ in range(2):
        keys = [None] * 20 + ["a"] * 9
        stream.add(pa.table([[seconds(1000)] * len(keys), keys, [*range(len(keys))]], SCHEMA))

    def query(rows: DataFrame) -> DataFrame:
        begins = spark.createDataFrame([(None, at) for at in range(10)], "k string, v long").groupBy("k")
        if kind == "rows":
            return transformed(rows, telling_rows(), "None", initial=begins)
        return transformed_frames(rows, telling_frames(), "None", initial=begins)

    with changed(spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": "7", "spark.sql.shuffle.partitions": "1"}):
        batches = same(stream, query)
    assert len(batches[0]) > len(batches[1])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_all_types_are_those_that_spark_gives(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    stream = wide(spark, tmp_path, seed=2, batches=2)

    def query(rows: DataFrame) -> DataFrame:
        begins = spark.read.parquet(str(tmp_path / "in" / "0000.parquet")).groupBy("number")
        if kind == "rows":
            return rows.groupBy("number").transformWithState(telling_rows(), OUTPUT, "Append", "None", begins)
        return transformed_frames(rows, telling_frames(), "None", ("number",), initial=begins)

    limits = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
        "spark.sql.session.timeZone": "America/Los_Angeles",
    }
    with changed(spark, limits):
        batches = same(stream, query)
    assert len(batches[0]) >= 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_first_micro_batch_of_no_rows_takes_the_initial_state(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    stream, generator = Stream(spark, tmp_path, SCHEMA, DELAY), random.Random(3)
    stream.add(SCHEMA.empty_table())
    for at in (1000, 1030):
        add(stream, generator, at)
    batches = same(stream, of_kind(kind, program(2, "EventTime"), "EventTime"))
    assert any(row.k in ("x", "y", "z") for batch in batches for row in batch)
