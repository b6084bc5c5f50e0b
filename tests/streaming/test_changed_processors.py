"""Processors that declare other variables when their query starts again, against plain Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyslash.driver.start import hook
from tests.support.frames import over_frames, transformed_frames
from tests.support.processors import PROCESSORS, Declared, declaring, transformed
from tests.support.ran import ran
from tests.support.stream import Stream, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int64())])
A, B, C, D = Declared("a"), Declared("b"), Declared("c", "list"), Declared("d", "map")
Changed = tuple[list[Declared], list[str]]
pytestmark = PROCESSORS


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """Without a micro-batch yet."""
    return Stream(spark, tmp_path, SCHEMA, 10)


def add(stream: Stream, keys: str) -> None:
    """A micro-batch with a row of each of these keys."""
    stream.add(pa.table([[seconds(1000)] * len(keys), [*keys], [1] * len(keys)], SCHEMA))


def given(stream: Stream, mode: str, change: Changed, frames: bool = False) -> list[list[Any]]:
    """The rows of what is there to read."""
    variables, deleted = change

    def query(rows: DataFrame) -> DataFrame:
        processor = declaring(variables, deleted)
        if frames:
            return transformed_frames(rows, over_frames(processor), "None")
        return transformed(rows, processor, "None")

    return ran(stream.read(), stream.folder, query, "append", mode, durability="checkpoint").batches


@pytest.mark.parametrize("frames", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_variables_come_and_go_as_in_spark(stream: Stream, frames: bool) -> None:
    """Keys without rows, too: `x` has none while `b` is deleted, nor `y` while it is merely not declared."""
    starts: list[tuple[str, Changed]] = [
        ("xyz", ([A, B], [])),
        ("xz", ([A], [])),
        ("xyz", ([D, B, A, C], [])),
        ("yz", ([A, C], ["b", "none"])),
        ("xyz", ([A, B, C, D], [])),
        ("xyz", ([Declared("a", schema="m long"), C], ["d"])),
        ("xyz", ([A, B, C, D], ["e"])),
    ]
    for keys, change in starts:
        add(stream, keys)
        expected = given(stream, "off", change, frames)
        assert given(stream, "require", change, frames) == expected, change
        assert sum(map(len, expected)) == len(keys) * len(change[0])
        hook._sweep()


@pytest.mark.parametrize(
    ("variable", "why"),
    [
        # By Spark itself, which looks at variables while it plans a micro-batch.
        (Declared("a", "list"), "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE"),
        pytest.param(
            Declared("a", schema="n int"),
            "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE|a variable of the processor: a value<struct<n:bigint>> -> a value",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_what_spark_refuses_is_refused(stream: Stream, variable: Declared, why: str) -> None:
    add(stream, "x")
    for mode in ("off", "require"):
        given(stream, mode, ([A, B], []))
    hook._sweep()
    add(stream, "x")
    for mode in ("off", "require"):
        with pytest.raises(StreamingQueryException, match=why):
            given(stream, mode, ([variable], []))
    expected = given(stream, "off", ([A, B], []))
    assert given(stream, "require", ([A, B], [])) == expected
    assert [row.gave for batch in expected for row in batch] == ["(1,)", "(1,)"]
