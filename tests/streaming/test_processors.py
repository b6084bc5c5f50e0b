"""`transformWithState` in Python against plain Spark over the same micro-batches."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.driver.start import hook
from pyslash.errors import UnsupportedQueryError
from pyslash.spark.session import changed
from tests.support.attempt import attempt, check_repeated, settings
from tests.support.processors import (
    PROCESSORS,
    counting,
    failing,
    nested,
    numbering,
    program,
    telling,
    transformed,
    waking,
    without_rows,
)
from tests.support.ran import Query, ran
from tests.support.stream import Stream, run, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int64())])
DELAY = 10
pytestmark = PROCESSORS


def add(stream: Stream, generator: random.Random, at: float, rows: int = 40) -> None:
    """Rows of few keys around a time, some of them late, some without a key or a time."""
    table = [
        (
            None if generator.random() < 0.05 else seconds(at + generator.choice((-40, *[generator.randrange(9)] * 9))),
            generator.choice((None, "", *"abcdefgh")),
            generator.randrange(100),
        )
        for _ in range(rows)
    ]
    table.sort(key=repr)
    stream.add(pa.table([[row[i] for row in table] for i in range(len(SCHEMA))], SCHEMA))


def made(spark: SparkSession, folder: Path, seed: int = 1, batches: int = 4, rows: int = 40) -> Stream:
    """Micro-batches in which keys come again and the watermark moves."""
    stream, generator = Stream(spark, folder, SCHEMA, DELAY), random.Random(seed)
    for batch in range(batches):
        add(stream, generator, 1000 + 15 * batch, rows)
    return stream


def same(stream: Stream, query: Query, output: str = "append", **conf: str) -> list[list[Any]]:
    """Pass if each micro-batch has Spark's rows; those."""
    expected = ran(stream.read(), stream.folder, query, output, "off")
    found = ran(stream.read(), stream.folder, query, output, "require", **conf)
    assert found.batches == expected.batches
    return found.batches


def counted(rows: DataFrame) -> DataFrame:
    """The number and the sum of the rows of each key."""
    return transformed(rows, counting(), "None")


def test_a_query_that_starts_again_goes_on_with_its_state(spark: SparkSession, tmp_path: Path) -> None:
    stream, generator = made(spark, tmp_path, batches=2), random.Random(4)
    for start in range(2):
        assert same(stream, counted, "update", durability="checkpoint")
        hook._sweep()
        add(stream, generator, 1060 + 40 * start)


@pytest.mark.parametrize(
    ("seed", "time_mode"),
    [
        *((seed, mode) for mode in ("None", "EventTime", "ProcessingTime") for seed in (1,)),
        *(
            pytest.param(seed, mode, marks=pytest.mark.nightly)
            for mode in ("None", "EventTime", "ProcessingTime")
            for seed in range(2, 150)
        ),
    ],
)
def test_random_programs_are_sparks(spark: SparkSession, tmp_path: Path, seed: int, time_mode: str) -> None:
    stream = made(spark, tmp_path, seed)
    with changed(spark, without_rows(time_mode != "ProcessingTime")):
        batches = same(stream, lambda rows: transformed(rows, program(seed, time_mode), time_mode))
    assert sum(map(len, batches)) > 100
    if time_mode != "None":
        assert any("timer" in row.did for batch in batches for row in batch)


def test_an_epoch_that_comes_again_behind_its_manifest_has_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    check_repeated(made(spark, tmp_path, seed=5), counted, tmp_path)


def test_what_a_processor_raises_ends_the_query_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    stream = made(spark, tmp_path, batches=1)
    tried = attempt(transformed(stream.read(), failing("c"), "None"), tmp_path / "ours", mode="auto")
    assert tried.error is not None
    assert "ValueError: this key is not welcome" in str(tried.error)
    assert tried.batches == []


@pytest.mark.parametrize(
    "kind", ["value", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("list", "map"))]
)
def test_nested_values_are_kept_as_spark_keeps_them(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    batches = same(made(spark, tmp_path, seed=8, batches=3), lambda rows: transformed(rows, nested(kind), "None"))
    gave = [row.gave for batch in batches for row in batch]
    assert any("Row(a=1, b='x')" in one and "Decimal('1.26')" in one for one in gave)


def test_state_moves_into_a_new_generation(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every epoch, here: none finds what another one has left in the panes before."""
    from pyslash.operators.transform import steps

    monkeypatch.setattr(steps, "_FEWEST_ENTRIES", 0)
    monkeypatch.setattr(steps, "_MOST_REPLACED", 0)
    panes: list[int] = []
    moved = steps.next_generation
    monkeypatch.setattr(steps, "next_generation", lambda last: panes.append(moved(last)) or panes[-1])
    assert same(made(spark, tmp_path, seed=6, batches=5), counted)
    assert len(panes) >= 3


def test_explain_says_what_it_keeps(spark: SparkSession, tmp_path: Path) -> None:
    pyslash.enable(spark)
    try:
        told = pyslash.explain(counted(made(spark, tmp_path, batches=1).read()))
    finally:
        pyslash.disable()
    assert "counted value<struct<rows:bigint,total:bigint>>" in told


@pytest.mark.parametrize("value", ["on", "off"])
def test_a_processor_that_is_left_to_spark_does_nothing_in_the_driver(
    spark: SparkSession, tmp_path: Path, value: str
) -> None:
    initialised = tmp_path / "initialised"
    query = transformed(made(spark, tmp_path, batches=1).read(), telling(str(initialised)), "None")
    with settings(spark, {"spark.slash.processors": value}):
        told = pyslash.explain(query)
    assert ("on plain Spark by spark.slash.processors=off" in told) is (value == "off")
    assert initialised.exists() is (value == "on")


def test_by_default_pyslash_runs_a_processor_and_as_told_spark(spark: SparkSession, tmp_path: Path) -> None:
    initialised = tmp_path / "initialised"
    rows = transformed(made(spark, tmp_path, batches=1).read(), telling(str(initialised)), "None")
    assert attempt(rows, tmp_path / "ours").error is None  # by mode=require
    assert initialised.exists()
    with (
        settings(spark, {"spark.slash.processors": "off"}),
        pytest.raises(UnsupportedQueryError, match=r"on plain Spark by spark\.slash\.processors=off"),
    ):
        attempt(rows, tmp_path / "others")


@pytest.mark.parametrize("merging", ["0", "1m"], ids=["by tasks", "by the driver"])
def test_rows_of_a_key_come_in_the_order_that_its_processor_has_given_them(
    spark: SparkSession, tmp_path: Path, merging: str
) -> None:
    stream = made(spark, tmp_path, seed=9, batches=2)
    outcome = run(transformed(stream.read(), numbering(6000), "None"), tmp_path, **{"merge.driverBytes": merging})
    for batch in filter(None, outcome.batches):
        given: dict[str, list[int]] = {}
        for row in batch:
            given.setdefault(row.k, []).append(int(row.gave))
        assert len(given) > 5
        assert all(numbers == list(range(6000)) for numbers in given.values())


def test_times_may_be_numbers_of_numpy(spark: SparkSession, tmp_path: Path) -> None:
    stream = made(spark, tmp_path, seed=10, batches=5)
    with changed(spark, without_rows(True)):
        batches = same(stream, lambda rows: transformed(rows, waking(), "EventTime"))
    assert any(row.did == "timer" for batch in batches for row in batch)


def test_a_column_may_be_called_home(spark: SparkSession, tmp_path: Path) -> None:
    stream = made(spark, tmp_path, seed=11, batches=2)
    assert same(stream, lambda rows: counted(rows.withColumn("Home", F.lit(1)).withColumn("home_", F.lit(2))))
