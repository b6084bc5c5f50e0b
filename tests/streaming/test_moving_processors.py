"""Processors in Python that move to pyslash and back to plain Spark, with their state, against plain Spark alone."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from pyslash.driver.start import hook
from pyslash.errors import InvalidInputError
from pyslash.migrate.export import export
from pyslash.spark.session import changed
from tests.streaming.test_processors import DELAY, SCHEMA, add, made
from tests.support.frames import applied, group_program, over_frames, transformed_frames
from tests.support.processors import (
    HOURS_MS,
    PROCESSORS,
    PROVIDER,
    Declared,
    counting,
    declaring,
    nested,
    program,
    transformed,
    without_rows,
)
from tests.support.ran import Query, ran
from tests.support.stream import Stream, seconds

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


def moved_back(stream: Stream, generator: random.Random, query: Query, output: str = "append") -> list[list[Any]]:
    """The same when plain Spark has the state again."""
    export(stream.spark, str(stream.folder / "checkpoint-require"))
    back = stream.folder / "back"
    shutil.copytree(stream.folder / "checkpoint-require", back / "checkpoint-off")
    batches = []
    for batch in range(2):
        add(stream, generator, 1120 + 15 * batch)
        expected = ran(stream.read(), stream.folder, query, output, "off")
        found = ran(stream.read(), back, query, output, "off")
        assert found.batches == expected.batches
        batches += found.batches
    return batches


def stores(kind: str, seed: int, time_mode: str) -> dict[str, str]:
    """Settings of Spark's state store, which it and `export` have to do with each."""
    if kind == "groups" and seed % 2:
        return {PROVIDER: "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"}
    return {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": str(time_mode == "EventTime")}


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
        (1, "None", "groups"),
        (1, "EventTime", "frames"),
        *(
            pytest.param(seed, mode, kind, marks=pytest.mark.nightly)
            for kind in KINDS
            for mode in MODES
            for seed in range(2, 9)
        ),
    ],
)
def test_random_programs_go_on_as_sparks_there_and_back(
    spark: SparkSession, tmp_path: Path, seed: int, time_mode: str, kind: str
) -> None:
    output = "append" if kind != "groups" or seed % 2 else "update"
    query = of_kind(kind, seed, time_mode, output)
    with changed(spark, without_rows(time_mode != "ProcessingTime") | stores(kind, seed, time_mode)):
        stream, generator = begun(spark, tmp_path, query, seed, output)
        there = moved(stream, generator, query, output)
        back = moved_back(stream, generator, query, output)
    assert sum(map(len, there)) > 60
    assert sum(map(len, back)) > 20


@pytest.mark.parametrize("kind", ["value", "list", "map"])
def test_nested_values_are_moved(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    query: Query = lambda rows: transformed(rows, nested(kind), "None")  # noqa: E731
    stream, generator = begun(spark, tmp_path, query)
    assert sum(map(len, moved(stream, generator, query))) > 20
    assert sum(map(len, moved_back(stream, generator, query))) > 10


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


def expiries(spark: SparkSession, checkpoint: Path) -> dict[tuple[str, str], int]:
    """When what plain Spark has of each variable and key expires."""
    reader = spark.read.format("statestore")
    found = {}
    for name, column in (("v", "value"), ("l", "list_element"), ("m", "user_map_value")):
        rows = reader.option("stateVarName", name).load(str(checkpoint)).collect()
        found |= {(name, row.key.k): row[column].ttlExpirationMs for row in rows}
    return found


def test_values_expire_when_they_would_have(spark: SparkSession, tmp_path: Path) -> None:
    variables = [Declared(name, kind, ttl_ms=HOURS_MS) for name, kind in (("v", "value"), ("l", "list"), ("m", "map"))]
    query: Query = lambda rows: transformed(rows, declaring(variables), "ProcessingTime")  # noqa: E731
    with changed(spark, without_rows(are=False)):
        stream = Stream(spark, tmp_path, SCHEMA, DELAY)
        stream.add(pa.table([[seconds(1000)], ["before"], [1]], SCHEMA))
        ran(stream.read(), tmp_path, query, "append", "off")
        shutil.copytree(tmp_path / "checkpoint-off", tmp_path / "checkpoint-require")
        stream.add(pa.table([[seconds(1001)], ["since"], [1]], SCHEMA))
        ran(stream.read(), tmp_path, query, "append", "require", adopt="true")
    before = expiries(spark, tmp_path / "checkpoint-off")
    export(spark, str(tmp_path / "checkpoint-require"))
    moved = expiries(spark, tmp_path / "checkpoint-require")
    assert len(before) == 3
    assert len(moved) == 6
    assert before.items() <= moved.items()
    assert min(moved[name, "since"] for name in "vlm") > max(before.values())


def test_state_of_what_the_last_start_has_not_declared_stays(spark: SparkSession, tmp_path: Path) -> None:
    stream, generator = made(spark, tmp_path), random.Random(1)
    for number, names in enumerate((("one", "two"), ("one",))):
        query: Query = lambda rows, names=names: transformed(rows, declaring([*map(Declared, names)]), "None")  # noqa: E731
        ran(stream.read(), tmp_path, query, "append", "require")
        add(stream, generator, 1060 + 15 * number)
    with pytest.raises(InvalidInputError, match="state of the variable two, which the query's last start did not"):
        export(spark, str(tmp_path / "checkpoint-require"))
    assert (tmp_path / "checkpoint-require" / "slash").is_dir()
