"""`transformWithStateInPandas` and `applyInPandasWithState` against plain Spark over the same micro-batches."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from pyslash.driver.start import hook
from pyslash.spark.session import changed
from tests.streaming.test_processors import DELAY, add, made, same
from tests.support.attempt import attempt, check_repeated
from tests.support.frames import (
    applied,
    changing_frames,
    counted_by_hour,
    group_program,
    over_frames,
    telling_frames,
    telling_groups,
    transformed_frames,
    wrong,
)
from tests.support.nightly import some_at_night
from tests.support.processors import PROCESSORS, counting, failing, program, without_rows
from tests.support.stream import Stream, seconds

pytestmark = PROCESSORS
TIME = pa.timestamp("us", "UTC")
HOURS = pa.schema([("ts", TIME), ("v", pa.int64())])
# A column of each type that pandas has its own way with.
WIDE = pa.schema(
    [
        ("ts", TIME),
        ("k", pa.string()),
        ("number", pa.int32()),
        ("tiny", pa.int8()),
        ("v", pa.int64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("whether", pa.bool_()),
        ("day", pa.date32()),
        ("at", TIME),
        ("raw", pa.binary()),
        ("price", pa.decimal128(10, 2)),
        ("listed", pa.list_(pa.int32())),
        ("nested", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ("two words", pa.string()),
    ]
)


def wide(spark: SparkSession, folder: Path, seed: int, batches: int = 3) -> Stream:
    """Rows of all these types, with nulls."""
    stream, generator = Stream(spark, folder, WIDE, DELAY), random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if generator.random() < 0.3 else value

    for batch in range(batches):
        rows = [
            (
                seconds(1000 + 15 * batch + generator.randrange(9)),
                maybe(generator.choice("abcd")),
                maybe(generator.randrange(3)),
                maybe(generator.randrange(-9, 9)),
                generator.randrange(1 << 40),
                maybe(0.1),
                maybe(generator.choice([0.5, float("nan"), -0.0])),
                maybe(True),
                maybe(date(2026, 7, generator.randrange(1, 4))),
                maybe(seconds(generator.randrange(1 << 30) + 0.25)),
                maybe(b"\x00\xff"),
                maybe(Decimal("1.50")),
                maybe([1, None, 2]),
                maybe({"a": maybe(1), "b": "x"}),
                maybe("two"),
            )
            for _ in range(30)
        ]
        stream.add(pa.table([pa.array([row[i] for row in rows], WIDE.field(i).type) for i in range(len(WIDE))], WIDE))
    return stream


# A null makes the keys of a batch that are integers floating-point numbers.
KEYS = [("k",), ("day", "whether"), ("number",), ("at", "raw"), ("tiny", "two words")]
QUICK = [("processor", ("number",), "7"), ("group state", ("day", "whether"), "7")]
# Plain Spark gives processors no keys that are times without a value, and no columns whose names have spaces.
OF_PROCESSORS = KEYS[:3]
ALL = [
    (kind, keys, rows)
    for kind, all_keys in (("processor", OF_PROCESSORS), ("group state", KEYS))
    for keys in all_keys
    for rows in ("7", "10000")
]


@pytest.mark.parametrize(
    ("kind", "keys", "most_rows"),
    [*QUICK, *(pytest.param(*case, marks=pytest.mark.nightly) for case in ALL if case not in QUICK)],
)
def test_frames_are_those_that_spark_gives(
    spark: SparkSession, tmp_path: Path, kind: str, keys: tuple[str, ...], most_rows: str
) -> None:
    stream = wide(spark, tmp_path, seed=1)
    limits = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": most_rows,
        "spark.sql.session.timeZone": "America/Los_Angeles",
    }

    def query(rows: DataFrame) -> DataFrame:
        if kind == "processor":
            return transformed_frames(rows, telling_frames(), "EventTime", keys)
        return applied(rows, telling_groups(), "EventTimeTimeout", keys)

    with changed(spark, limits):
        batches = same(stream, query)
    assert sum(map(len, batches)) >= 15
    if kind == "group state":
        assert any(row.did.startswith("True") for batch in batches for row in batch)


MODES = ("None", "EventTime", "ProcessingTime")


@pytest.mark.parametrize(
    ("seed", "time_mode"),
    [
        (1, "EventTime"),
        *(pytest.param(seed, mode, marks=pytest.mark.nightly) for mode in MODES for seed in range(2, 90)),
    ],
)
def test_random_programs_over_frames_are_sparks(spark: SparkSession, tmp_path: Path, seed: int, time_mode: str) -> None:
    stream = made(spark, tmp_path, seed)
    with changed(spark, without_rows(time_mode != "ProcessingTime")):
        batches = same(stream, lambda rows: transformed_frames(rows, over_frames(program(seed, time_mode)), time_mode))
    assert sum(map(len, batches)) > 100


WAITING = ("number", "texts", "one column", "rows")
TIMEOUTS = ("NoTimeout", "EventTimeTimeout", "ProcessingTimeTimeout")


@pytest.mark.parametrize(
    ("seed", "timeout"),
    [
        *((1, timeout) for timeout in TIMEOUTS[1:]),
        pytest.param(2, "NoTimeout", marks=pytest.mark.nightly),
        *(pytest.param(seed, timeout, marks=pytest.mark.nightly) for timeout in TIMEOUTS for seed in range(3, 80)),
    ],
)
def test_random_functions_of_a_group_state_are_sparks(
    spark: SparkSession, tmp_path: Path, seed: int, timeout: str
) -> None:
    stream, mode = made(spark, tmp_path, seed, batches=5), "append" if seed % 2 else "update"
    with changed(spark, without_rows(timeout != "ProcessingTimeTimeout")):
        batches = same(stream, lambda rows: applied(rows, group_program(seed, timeout), timeout, mode=mode), mode)
    assert sum(map(len, batches)) > 100
    if timeout != "NoTimeout" and seed < 3:  # not all of the other programs set a time that comes
        assert any(" True GroupState" in row.gave for batch in batches for row in batch), "a key has timed out"


@pytest.mark.parametrize("output", ["k string, n long", "k string, n long, seen array<long>"])
def test_a_frame_may_be_changed_and_given_again(spark: SparkSession, tmp_path: Path, output: str) -> None:
    stream = made(spark, tmp_path, seed=12, batches=2)
    batches = same(stream, lambda rows: transformed_frames(rows, changing_frames(), "None", output=output))
    assert max(row.n for batch in batches for row in batch) > 3


def test_hours_that_a_time_zone_has_twice_are_two_keys(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, HOURS, DELAY)
    for hour in (1_793_509_200, 1_793_516_400):  # 1:00 on the first Sunday of November 2026 in New York, and later
        times = [seconds(hour + 1800 * half) for half in range(4)]
        stream.add(pa.table({"ts": times, "v": range(4)}, HOURS))
    with changed(spark, {"spark.sql.session.timeZone": "America/New_York", "spark.sql.shuffle.partitions": "1"}):
        batches = same(stream, counted_by_hour, "update")
    assert [len(batch) for batch in batches] == [2, 2]


def counted(rows: DataFrame) -> DataFrame:
    return transformed_frames(rows, over_frames(counting()), "None")


def grouped(rows: DataFrame) -> DataFrame:
    return applied(rows, group_program(3, "EventTimeTimeout"), "EventTimeTimeout")


@pytest.mark.parametrize("query", some_at_night([counted, grouped], [counted]))
def test_a_query_that_starts_again_goes_on_with_its_state(
    spark: SparkSession, tmp_path: Path, query: Callable[[DataFrame], DataFrame]
) -> None:
    stream, generator = made(spark, tmp_path, batches=2), random.Random(4)
    for start in range(2):
        assert same(stream, query, durability="checkpoint")
        hook._sweep()
        add(stream, generator, 1060 + 40 * start)


@pytest.mark.parametrize("query", some_at_night([counted, grouped], [grouped]))
def test_an_epoch_that_comes_again_behind_its_manifest_has_the_same_rows(
    spark: SparkSession, tmp_path: Path, query: Callable[[DataFrame], DataFrame]
) -> None:
    check_repeated(made(spark, tmp_path, seed=5), query, tmp_path)


@pytest.mark.parametrize("what", some_at_night(["number", "texts", "one column", "untidy", "its own error"], WAITING))
def test_a_function_that_fails_fails_as_in_spark(spark: SparkSession, tmp_path: Path, what: str) -> None:
    stream = made(spark, tmp_path, batches=1)
    told = []
    for mode in ("off", "require"):
        tried = attempt(applied(stream.read(), wrong(what), "NoTimeout"), tmp_path / mode, mode)
        assert tried.batches == []
        told.append(last_line(tried.error))
    assert told[1] == told[0]
    assert told[0] != ""


@pytest.mark.parametrize("what", some_at_night(["rows", "its own error"], WAITING))
def test_a_processor_that_fails_fails_as_in_spark(spark: SparkSession, tmp_path: Path, what: str) -> None:
    stream, processor = made(spark, tmp_path, batches=1), failing("c")
    told = []
    for mode in ("off", "require"):
        query = transformed_frames(stream.read(), processor if what == "rows" else over_frames(processor), "None")
        told.append(last_line(attempt(query, tmp_path / mode, mode).error))
    assert told[1] == told[0]
    assert told[0] != ""


def last_line(error: Exception | None) -> str:
    """What Python's own error says."""
    found = re.findall(r"^\s*((?:[a-zA-Z.]+\.)?\w*Error: .*)$", str(error), re.MULTILINE)
    return found[-1] if found else ""
