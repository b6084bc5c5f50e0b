"""spark.slash.strategy=repartition: the same rows, late rows and figures as merging; what it moves; what it leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pyslash.cluster.coordinator import Coordinator
from pyslash.emit import repartition
from pyslash.emit.aggregate_rows import AggregateRows
from pyslash.state.manifest import Manifest
from tests.agent.blocks import attach
from tests.support.stream import Outcome, Stream, differences, run, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
WINDOW = ("ts", "10 seconds", "5 seconds")
BATCHES, ROWS, KEYS = 4, 2000, 40


def calls() -> list[Any]:
    """The aggregates; a Column needs a session."""
    return [F.count("*"), F.sum("v"), F.max("v")]


def batch(number: int) -> pa.Table:
    """Some of its rows come after their windows, which Spark drops from the third batch on."""
    times = [seconds(900 if number and i % 50 == 0 else 1000 + 20 * number + i / ROWS * 20) for i in range(ROWS)]
    return pa.table({"ts": times, "k": [i % KEYS for i in range(ROWS)], "v": list(range(ROWS))}, SCHEMA)


END = pa.table({"ts": [seconds(5000)], "k": [0], "v": [0]}, SCHEMA)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """All batches, and a last one that closes every window."""
    made = Stream(spark, tmp_path, SCHEMA, delay_seconds=5)
    for number in range(BATCHES):
        made.add(batch(number))
    made.add(END)
    return made


def ran(stream: Stream, folder: Path, **conf: str) -> Outcome:
    """The query, by a conf."""
    return run(stream.read().groupBy(F.window(*WINDOW), "k").agg(*calls()), folder, ingest="rows", **conf)


def wrong(stream: Stream, rows: Iterable[Any]) -> list[str]:
    """Where rows differ from the oracle's."""
    return list(differences(list(rows), stream.expected(F.window(*WINDOW), [F.col("k")], calls()), 1))


def test_both_strategies_give_the_same_rows_and_the_same_books(stream: Stream, tmp_path: Path) -> None:
    merged, owned = (ran(stream, tmp_path / name, strategy=name) for name in ("merge", "repartition"))
    assert wrong(stream, merged.rows) == wrong(stream, owned.rows) == []
    assert [sorted(map(str, rows)) for rows in merged.batches] == [sorted(map(str, rows)) for rows in owned.batches]
    for figure in ("rows", "late_rows", "windows", "watermark_us"):
        assert [epoch[figure] for epoch in owned.progress] == [epoch[figure] for epoch in merged.progress], figure
    assert sum(epoch["late_rows"] for epoch in owned.progress) == (BATCHES - 2) * ROWS // 50
    read = [[entry["numInputRows"] for entry in outcome.spark_progress] for outcome in (merged, owned)]
    assert read[0] == read[1]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The lengths of an epoch's own blocks, an epoch each, that its agent holds once the epoch is committed."""
    lengths: list[list[int]] = []
    commit = Coordinator.commit

    def counted(self: Coordinator, manifest: Manifest) -> None:
        commit(self, manifest)
        (agent,) = self.agents
        blocks = attach(agent).blocks()
        lengths.append(
            [length for _, length, _, _, query, epoch in blocks if (query, epoch) == (self.query_id, manifest.epoch)]
        )

    monkeypatch.setattr(Coordinator, "commit", counted)
    return lengths


def test_every_row_crosses_and_none_stays(stream: Stream, tmp_path: Path, held: list[list[int]]) -> None:
    merged, owned = (ran(stream, tmp_path / name, strategy=name) for name in ("merge", "repartition"))
    assert all(epoch["bytes_shuffled"] == {} for epoch in merged.progress)
    for epoch in owned.progress[:BATCHES]:
        assert epoch["bytes_shuffled"].keys() == {"shm"}
        assert epoch["bytes_shuffled"]["shm"] > ROWS * 3 * 8
    # A group is in one block an epoch, not in one a task.
    assert 0 < sum(epoch["groups"] for epoch in owned.progress) <= sum(epoch["groups"] for epoch in merged.progress)
    # An epoch's rows are gone once it has committed.
    assert 0 < max(map(sum, held)) < ROWS * 3 * 8


def test_groups_per_row_tells_how_much_smaller_partial_state_is(stream: Stream, tmp_path: Path) -> None:
    first, *_, last = ran(stream, tmp_path).progress
    assert first["groups_per_row"] == pytest.approx(first["groups"] / first["rows"], abs=1e-6)
    assert 0 < first["groups_per_row"] < 1
    assert last["rows"] == 0 or last["groups_per_row"] == 1.0


def test_rows_cross_by_the_transport_that_is_asked_for(stream: Stream, tmp_path: Path) -> None:
    outcome = ran(stream, tmp_path, strategy="repartition", transport="tcp")
    assert wrong(stream, outcome.rows) == []
    assert {name for epoch in outcome.progress for name in epoch["bytes_shuffled"]} == {"tcp"}


def test_a_query_may_change_its_strategy_when_it_starts_again(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=5)
    added = [*map(batch, range(BATCHES)), END]
    for rows, strategy in zip(added, ["merge", "repartition", "repartition", "merge", "repartition"], strict=True):
        stream.add(rows)
        found = ran(stream, tmp_path / "found", strategy=strategy).batches
        expected = ran(stream, tmp_path / "expected", mode="off").batches
        assert any(expected)
        assert [sorted(map(str, rows)) for rows in found] == [sorted(map(str, rows)) for rows in expected]


@dataclass(frozen=True)
class LostAnswer(AggregateRows):
    """Every owner's first attempt publishes its block, and is never heard of again."""

    def __call__(self, owner: int) -> tuple[bytes, Counter[str]]:
        """Two attempts; the receipt of the second."""
        super().__call__(owner)
        return super().__call__(owner)


def test_an_owner_that_is_tried_again_counts_nothing_twice(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: list[list[int]]
) -> None:
    monkeypatch.setattr(repartition, "AggregateRows", LostAnswer)
    outcome = ran(stream, tmp_path, strategy="repartition")
    assert wrong(stream, outcome.rows) == []
    # Of what an epoch has published, rows and first attempts included, its commit leaves a block an owner.
    assert max(map(len, held)) == stream.spark.sparkContext.defaultParallelism
