"""Queries with several stateful operators, against plain Spark over the same micro-batches."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.cluster.coordinator import Coordinator
from pyslash.driver.operator_runner import OperatorRunner
from pyslash.driver.start import hook
from pyslash.epoch_progress import EpochProgress
from tests.faults.local import kill_agents
from tests.support.nightly import some_at_night
from tests.support.ran import Query, ran
from tests.support.stream import Stream, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])


def add(stream: Stream, generator: random.Random, at: float, rows: int = 200) -> None:
    """Rows around a time, out of order: some late, some that were there before, some without a time."""

    def row() -> tuple[object, ...]:
        late = generator.random() < 0.15
        time = at + (generator.uniform(-60, -15) if late else generator.uniform(-12, 12))
        key = generator.randrange(8)
        return (
            None if generator.random() < 0.03 else seconds(round(time)),
            generator.randrange(300),
            generator.choice((None, key)),
            generator.choice((None, *range(100))),
        )

    table = [row() for _ in range(rows)]
    stream.add(pa.table([[row[i] for row in table] for i in range(4)], SCHEMA))


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """Micro-batches of which each has rows of windows, sessions and ids of those before."""
    made = Stream(spark, tmp_path, SCHEMA, delay_seconds=10)
    generator = random.Random(11)
    for batch in range(5):
        add(made, generator, 1000 + 15 * batch)
    return made


def by_window(rows: DataFrame, size: str = "10 seconds", *keys: str) -> DataFrame:
    return rows.groupBy(F.window("ts", size), *keys).agg(F.count("*").alias("n"), F.sum("v").alias("s"))


def unique(rows: DataFrame) -> DataFrame:
    # Which of several equal rows survives is nobody's to say: what is counted further up is the same in all of them.
    return rows.select("ts", "id", (F.col("id") % 7).alias("k"), (F.col("id") % 5).alias("v")).dropDuplicates(
        ["ts", "id"]
    )


def windows_of_windows(rows: DataFrame) -> DataFrame:
    first = by_window(rows, "10 seconds", "k")
    return first.groupBy(F.window(F.window_time("window"), "30 seconds")).agg(
        F.sum("n").alias("n"), F.count("*").alias("groups"), F.max("s").alias("s")
    )


def windows_of_a_window_column(rows: DataFrame) -> DataFrame:
    return (
        by_window(rows, "5 seconds", "k").groupBy(F.window("window", "20 seconds", "10 seconds"), "k").agg(F.max("n"))
    )


def sessions_in_windows(rows: DataFrame) -> DataFrame:
    sessions = rows.groupBy(F.session_window("ts", "4 seconds").alias("session"), "k").agg(F.count("*").alias("n"))
    return sessions.groupBy(F.window(F.window_time("session"), "30 seconds")).agg(F.count("*"), F.sum("n"))


def three(rows: DataFrame) -> DataFrame:
    return windows_of_windows(unique(rows))


def both_of_a_union(rows: DataFrame) -> DataFrame:
    odd, even = (by_window(rows.where(f"v % 2 = {rest}"), "10 seconds", "k") for rest in (1, 0))
    return odd.union(even)


QUERIES: dict[str, tuple[Query, str, int]] = {
    "unique rows, then windows": (lambda rows: by_window(unique(rows), "10 seconds", "k"), "append", 2),
    "unique rows, then windows, updated": (lambda rows: by_window(unique(rows), "10 seconds", "k"), "update", 2),
    "unique rows, then all windows": (lambda rows: by_window(unique(rows), "10 seconds", "k"), "complete", 2),
    "windows of windows": (windows_of_windows, "append", 2),
    "windows of a window column": (windows_of_a_window_column, "append", 2),
    "sessions in windows": (sessions_in_windows, "append", 2),
    "three": (three, "append", 3),
    "two side by side": (both_of_a_union, "append", 2),
}
# `three` is started twice below; random streams have windows of unique rows, in complete mode too; a window of a window
# column is Spark's own `window_time` of it, so that of `windows of windows`.
LONG = {"three", "unique rows, then all windows", "windows of a window column"}
EVERYWHERE = {"merge.driverBytes": "0"}


@pytest.mark.parametrize("name", some_at_night(QUERIES, LONG))
def test_micro_batches_are_sparks(stream: Stream, name: str) -> None:
    query, output, operators = QUERIES[name]
    expected = ran(stream.read(), stream.folder, query, output, "off")
    found = ran(stream.read(), stream.folder, query, output, "require")
    assert found.batches == expected.batches
    assert sum(map(len, found.batches)) > 0
    assert {epoch["operator"] for epoch in found.progress} == set(range(operators))


def test_a_query_that_starts_again_goes_on_with_all_of_its_state(stream: Stream) -> None:
    generator = random.Random(12)
    for start in range(2):
        expected = ran(stream.read(), stream.folder, three, "append", "off")
        found = ran(stream.read(), stream.folder, three, "append", "require", durability="checkpoint", **EVERYWHERE)
        assert found.batches == expected.batches
        hook._sweep()
        if start == 0:
            for batch in range(3):
                add(stream, generator, 1080 + 15 * batch)
    assert any(found.batches)


class BetweenOperatorsError(Exception):
    """The driver's own."""


def after_the_first(monkeypatch: pytest.MonkeyPatch, strike: Callable[[Coordinator], None]) -> None:
    """Once the first operator of epoch 3 is merged, before the one above it begins: this happens, once."""
    merged = OperatorRunner.merged
    struck: list[int] = []

    def merged_and_struck(self: OperatorRunner, execution: Any, epoch: int, progress: EpochProgress) -> DataFrame:
        rows = merged(self, execution, epoch, progress)
        if (epoch, progress.operator) == (3, 0) and not struck:
            assert self.state is not None
            struck.append(epoch)
            strike(self.state.coordinator)
        return rows

    monkeypatch.setattr(OperatorRunner, "merged", merged_and_struck)


def test_an_agent_that_dies_between_two_operators_costs_no_row(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ran(stream.read(), stream.folder, windows_of_windows, "append", "off")
    after_the_first(monkeypatch, kill_agents)
    found = ran(stream.read(), stream.folder, windows_of_windows, "append", "require", **EVERYWHERE)
    assert found.batches == expected.batches
    assert [epoch["recoveries"] for epoch in found.progress if epoch["epoch"] == 3] == [1, 1]
    assert [epoch["replayed"] for epoch in found.progress if epoch["epoch"] == 3] == [True, False]


def test_a_driver_that_fails_between_two_operators_costs_no_row(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ran(stream.read(), stream.folder, windows_of_windows, "append", "off")

    def fail(coordinator: Coordinator) -> None:
        raise BetweenOperatorsError

    after_the_first(monkeypatch, fail)
    found = []
    with pytest.raises(StreamingQueryException, match="BetweenOperatorsError"):
        ran(stream.read(), stream.folder, windows_of_windows, "append", "require", found)
    last = ran(stream.read(), stream.folder, windows_of_windows, "append", "require", found)
    assert found == expected.batches
    assert [epoch["replayed"] for epoch in last.progress if epoch["epoch"] == 3] == [True, False]


def test_explain_tells_of_each_operator(stream: Stream) -> None:
    text = pyslash.explain(three(stream.read()))
    assert [line.split(", ")[1] for line in text.splitlines() if line.startswith("operator")] == [
        "StreamingDeduplicate",
        "StateStoreSave",
        "StateStoreSave",
    ]
    assert "rows: those of the operators below" in text


def test_operators_side_by_side_read_the_source_each(stream: Stream) -> None:
    text = pyslash.explain(both_of_a_union(stream.read()))
    assert "operator 1" in text
    assert "of the operators below" not in text


@pytest.mark.parametrize("how", [pytest.param("inner", marks=pytest.mark.nightly), "leftouter"])
def test_joined_rows_in_windows(stream: Stream, how: str) -> None:
    others = unique(stream.read()).select(*(F.col(name).alias(f"r_{name}") for name in ("ts", "id", "v")))

    def query(rows: DataFrame) -> DataFrame:
        near = "id = r_id AND r_ts BETWEEN ts - INTERVAL 5 SECONDS AND ts + INTERVAL 5 SECONDS"
        return (
            rows.join(others, F.expr(near), how)
            .groupBy(F.window("ts", "10 seconds"), "k")
            .agg(F.count("*"), F.count("r_id"), F.sum("r_v"))
        )

    expected = ran(stream.read(), stream.folder, query, "append", "off")
    found = ran(stream.read(), stream.folder, query, "append", "require")
    assert found.batches == expected.batches
    assert sum(map(len, found.batches)) > 0
    assert {epoch["operator"] for epoch in found.progress} == {0, 1, 2}
