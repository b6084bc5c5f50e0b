"""Faults in a running query: agents killed at named points, a query restarted, a second driver. Rows stay Spark's."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

import pyslash
from pyslash import cli
from pyslash.streaming.checkpoint_files import LocalFiles
from pyslash.streaming.coordinator import Coordinator
from pyslash.streaming.manifest import ManifestLog
from tests.streaming.stream import Stream, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
Rows = dict[int, list[tuple[object, ...]]]


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Iterator[Stream]:
    """Windows stay open over several batches, so that state is worth something."""
    made = Stream(spark, tmp_path, SCHEMA, delay_seconds=15)
    for batch in range(6):
        times = [seconds(1000 + 7 * batch + i % 10) for i in range(60)]
        made.add(pa.table({"ts": times, "k": [i % 5 for i in range(60)], "v": list(range(60))}, SCHEMA))
    made.add(pa.table({"ts": [seconds(5000)], "k": [0], "v": [0]}, SCHEMA))
    pyslash.enable(spark)
    spark.conf.set("spark.slash.mode", "require")
    yield made
    spark.conf.unset("spark.slash.mode")
    pyslash.disable()


def start(stream: Stream, rows: Rows, before_sink: Callable[[int], None] = lambda epoch: None) -> StreamingQuery:
    def sink(batch: DataFrame, epoch: int) -> None:
        before_sink(epoch)
        rows[epoch] = sorted((r[0].start, *r[1:]) for r in batch.collect())

    counts = stream.read().groupBy(F.window("ts", "10 seconds", "5 seconds"), "k").agg(F.count("*"), F.sum("v"))
    writer = counts.writeStream.option("checkpointLocation", str(stream.folder / "checkpoint"))
    return writer.foreachBatch(sink).trigger(availableNow=True).start()


def emitted(rows: Rows) -> list[tuple[object, ...]]:
    return sorted(row for batch in rows.values() for row in batch)


def expected(stream: Stream) -> list[tuple[object, ...]]:
    window = F.window("ts", "10 seconds", "5 seconds")
    rows = stream.oracle(window, [F.col("k")], [F.count("*"), F.sum("v")]).collect()
    return sorted((row[0].start, *row[1:]) for row in rows)


def kill_agents(coordinator: Coordinator) -> None:
    for agent in coordinator.agents:
        os.kill(agent.pid, signal.SIGKILL)


POINTS = {
    "after update": (Coordinator, "store", False),
    "after checkpoint": (ManifestLog, "create", False),
    "after manifest": (ManifestLog, "create", True),
    "after commit": (Coordinator, "commit", True),
    "before release": (Coordinator, "release", False),
}


@pytest.mark.parametrize("point", POINTS)
def test_an_agent_killed_at_any_point_changes_no_row(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    owner, name, after = POINTS[point]
    real: Callable[..., Any] = getattr(owner, name)
    seen: list[Coordinator] = []
    calls = {"made": 0}
    commit = Coordinator.commit

    def remember(self: Coordinator, *arguments: Any) -> Any:
        seen.append(self)
        return commit(self, *arguments)

    def faulty(self: Any, *arguments: Any) -> Any:
        calls["made"] += 1
        strike = calls["made"] == 4
        if strike and not after:
            kill_agents(seen[-1])
        result = (remember if real is commit else real)(self, *arguments)
        if strike and after:
            kill_agents(seen[-1])
        return result

    monkeypatch.setattr(Coordinator, "commit", remember)
    monkeypatch.setattr(owner, name, faulty)
    rows: Rows = {}
    query = start(stream, rows)
    assert query.awaitTermination(120)
    assert emitted(rows) == expected(stream)
    assert sum(figures["recoveries"] for figures in pyslash.progress(query)) == 1


def test_a_query_that_lost_every_agent_and_its_driver_s_memory_goes_on(stream: Stream) -> None:
    rows: Rows = {}

    def fail(epoch: int) -> None:
        if epoch == 3:
            raise RuntimeError("between the sink and Spark's commit")

    first = start(stream, rows, fail)
    with pytest.raises(StreamingQueryException, match="between the sink"):
        first.awaitTermination(120)
    runner: Any = pyslash.streaming.hook.runner_of(first)
    kill_agents(runner._state.coordinator)
    second = start(stream, rows)
    assert second.awaitTermination(120)
    assert pyslash.progress(second)[0]["replayed"]
    assert emitted(rows) == expected(stream)


def test_a_driver_that_was_replaced_ends_with_a_clear_error(stream: Stream) -> None:
    rows: Rows = {}

    def rival(epoch: int) -> None:
        if epoch == 2:
            checkpoint = str(stream.folder / "checkpoint" / "slash")
            ManifestLog(LocalFiles(Path(checkpoint, "manifests")), LocalFiles(Path(checkpoint, "runs"))).take_over()

    query = start(stream, rows, rival)
    with pytest.raises(StreamingQueryException, match="was replaced by run 2"):
        query.awaitTermination(120)
    assert sorted(rows) == [0, 1, 2]


def test_files_of_dead_windows_are_deleted(stream: Stream) -> None:
    rows: Rows = {}
    assert start(stream, rows).awaitTermination(120)
    names = {path.name for path in (stream.folder / "checkpoint" / "slash" / "blocks").glob("*.arrow")}
    assert 0 < len(names) < 7
    assert cli.main(["state", "verify", str(stream.folder / "checkpoint")]) == 0
