"""Processors in Python that pyslash takes over from plain Spark, with their state, against plain Spark alone."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from pyslash.driver.start import hook
from pyslash.spark.session import changed
from tests.streaming.test_processors import add, made
from tests.support.frames import applied, group_program, over_frames, transformed_frames
from tests.support.processors import (
    PROCESSORS,
    Declared,
    counting,
    declaring,
    nested,
    program,
    transformed,
    without_rows,
)
from tests.support.ran import Query, ran
from tests.support.stream import Stream

pytestmark = PROCESSORS
MODES = ("None", "EventTime", "ProcessingTime")
KINDS = ("rows", "frames", "groups")


def begun(
    spark: SparkSession, folder: Path, query: Query, seed: int = 1, output: str = "append"
) -> tuple[Stream, random.Random]:
    """A query that plain Spark has run for some micro-batches, and a copy of its checkpoint for pyslash."""
    stream, generator = made(spark, folder, seed), random.Random(seed + 100)
    ran(stream.read(), folder, query, output, "off")
    shutil.copytree(folder / "checkpoint-off", folder / "checkpoint-require")
    return stream, generator


def moved(stream: Stream, generator: random.Random, query: Query, output: str = "append") -> list[list[Any]]:
    """Pass if each micro-batch since has Spark's rows, over a restart too; those."""
    batches = []
    for start in range(2):
        for batch in range(2):
            add(stream, generator, 1060 + 30 * start + 15 * batch)
        expected = ran(stream.read(), stream.folder, query, output, "off")
        # It says once that the state is to be moved, and is started again without.
        conf = {"adopt": "true"} if start == 0 else {}
        found = ran(stream.read(), stream.folder, query, output, "require", **conf)
        assert found.batches == expected.batches
        batches += found.batches
        hook._sweep()
    return batches


def of_kind(kind: str, seed: int, time_mode: str, output: str) -> Query:
    """A random program of a seed."""
    if kind == "rows":
        return lambda rows: transformed(rows, program(seed, time_mode), time_mode)
    if kind == "frames":
        return lambda rows: transformed_frames(rows, over_frames(program(seed, time_mode)), time_mode)
    timeout = {"None": "NoTimeout"}.get(time_mode, f"{time_mode}Timeout")
    return lambda rows: applied(rows, group_program(seed, timeout), timeout, mode=output)


@pytest.mark.parametrize(
    ("seed", "time_mode", "kind"),
    [
        *((1, mode, "rows") for mode in MODES),
        (1, "EventTime", "groups"),
        *(
            pytest.param(seed, mode, kind, marks=pytest.mark.nightly)
            for kind in KINDS
            for mode in MODES
            for seed in range(2, 9)
        ),
    ],
)
def test_random_programs_go_on_as_sparks(
    spark: SparkSession, tmp_path: Path, seed: int, time_mode: str, kind: str
) -> None:
    output = "append" if kind != "groups" or seed % 2 else "update"
    query = of_kind(kind, seed, time_mode, output)
    with changed(spark, without_rows(time_mode != "ProcessingTime")):
        batches = moved(*begun(spark, tmp_path, query, seed, output), query, output)
    assert sum(map(len, batches)) > 60


@pytest.mark.parametrize("kind", ["value", "list", "map"])
def test_nested_values_are_moved(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    query: Query = lambda rows: transformed(rows, nested(kind), "None")  # noqa: E731
    assert sum(map(len, moved(*begun(spark, tmp_path, query), query))) > 20


@pytest.mark.parametrize("variables", [[], [Declared("counted", schema="rows long, total string")]])
def test_what_is_declared_otherwise_is_not_moved(
    spark: SparkSession, tmp_path: Path, variables: list[Declared]
) -> None:
    stream, generator = begun(spark, tmp_path, lambda rows: transformed(rows, counting(), "None"))
    add(stream, generator, 1060)
    query: Query = lambda rows: transformed(rows, declaring(variables), "None")  # noqa: E731
    with pytest.raises(StreamingQueryException, match="plain Spark has state of the variable counted"):
        ran(stream.read(), tmp_path, query, "append", "require", adopt="true")
    assert not list((tmp_path / "checkpoint-require").glob("slash/manifests/*"))


def test_what_the_last_start_has_left_out_is_not_moved_until_it_is_declared(
    spark: SparkSession, tmp_path: Path
) -> None:
    def query(*names: str, deleted: tuple[str, ...] = ()) -> Query:
        return lambda rows: transformed(rows, declaring([Declared(name) for name in names], deleted), "None")

    stream, generator = made(spark, tmp_path), random.Random(1)
    for number, names in enumerate((("one", "two"), ("one",))):
        ran(stream.read(), tmp_path, query(*names), "append", "off")
        add(stream, generator, 1060 + 15 * number)
    shutil.copytree(tmp_path / "checkpoint-off", tmp_path / "checkpoint-require")
    with pytest.raises(StreamingQueryException, match="has kept state of the variable two"):
        ran(stream.read(), tmp_path, query("one", "two"), "append", "require", adopt="true")
    assert moved(stream, generator, query("one", deleted=("two",)))
