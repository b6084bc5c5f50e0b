"""Faults in a running query: agents killed at named points, a query restarted, a second driver. Rows stay Spark's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

import pyslash
from pyslash import cli
from pyslash.cluster.coordinator import Coordinator
from pyslash.errors import AgentTimeoutError
from pyslash.protocol.client import AgentClient
from pyslash.state import durable
from pyslash.state.files.checkpoint_files import LocalFiles
from pyslash.state.manifest import ManifestLog
from tests.faults.local import Rows, counted, emitted, expected, failed_at, kill_agents, start
from tests.support.nightly import some_at_night
from tests.support.stream import Stream

POINTS = {
    "after update": (Coordinator, "store", False),
    "after checkpoint": (ManifestLog, "create", False),
    "after manifest": (ManifestLog, "create", True),
    "after commit": (Coordinator, "commit", True),
    "before release": (Coordinator, "release", False),
}


def strike(monkeypatch: pytest.MonkeyPatch, point: str, strike_at: int) -> None:
    """Kill all agents of the query when it gets to this point for the `strike_at`th time, once it has state."""
    owner, name, after = POINTS[point]
    coordinators: list[Coordinator] = []
    calls = {"made": 0}

    def remembered(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Coordinator, *arguments: Any) -> Any:
            coordinators.append(self)
            return real(self, *arguments)

        return call

    for known in ("restore", "commit"):
        monkeypatch.setattr(Coordinator, known, remembered(getattr(Coordinator, known)))
    real: Callable[..., Any] = getattr(owner, name)

    def faulty(self: Any, *arguments: Any) -> Any:
        calls["made"] += bool(coordinators)  # an earlier query may be ending still
        is_struck = bool(coordinators) and calls["made"] == strike_at
        if is_struck and not after:
            kill_agents(coordinators[-1])
        result = real(self, *arguments)
        if is_struck and after:
            kill_agents(coordinators[-1])
        return result

    monkeypatch.setattr(owner, name, faulty)


# Of the others `make chaos` has each, on a cluster.
QUICK = ("after update", "after manifest")


@pytest.mark.parametrize("point", some_at_night(POINTS, {*POINTS} - {*QUICK}))
def test_an_agent_killed_at_any_point_changes_no_row(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    strike(monkeypatch, point, 4)
    rows: Rows = {}
    query = start(stream, rows)
    assert query.awaitTermination(900)
    assert emitted(rows) == expected(stream)
    assert sum(figures["recoveries"] for figures in pyslash.progress(query)) == 1


@pytest.mark.parametrize(
    "point", ["after manifest", *(pytest.param(one, marks=pytest.mark.nightly) for one in POINTS if "man" not in one)]
)
def test_an_agent_killed_while_a_changed_query_begins_changes_no_row(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    failed_at(stream, {}, 3)  # the old query, in a batch that the new one has to compute again
    strike(monkeypatch, point, 1)
    changed = ["avg(v)", "count(v)", "sum(v)"]
    rows: Rows = {}
    query = start(stream, rows, aggregates=changed)
    assert query.awaitTermination(900)
    assert sum(figures["recoveries"] for figures in pyslash.progress(query)) == 1
    batches = stream.expected_batches(lambda read: counted(read, *changed))
    due = {epoch: sorted((row[0].start, *row[1:]) for row in batch) for epoch, batch in enumerate(batches)}
    assert rows == {epoch: due[epoch] for epoch in range(3, len(batches))}
    assert emitted(rows)


@pytest.mark.parametrize("call", ["checkpoint", "commit", "release"])
def test_an_agent_whose_answer_is_lost_is_given_up_though_it_lives(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    real: Callable[..., Any] = getattr(AgentClient, call)
    calls = {"made": 0}

    def faulty(self: AgentClient, *arguments: Any) -> Any:
        result = real(self, *arguments)
        calls["made"] += 1
        if calls["made"] == 3:
            raise AgentTimeoutError(f"{call}: no answer")
        return result

    monkeypatch.setattr(AgentClient, call, faulty)
    rows: Rows = {}
    query = start(stream, rows)
    assert query.awaitTermination(900)
    assert emitted(rows) == expected(stream)
    assert sum(figures["recoveries"] for figures in pyslash.progress(query)) == 1


def test_a_query_that_lost_every_agent_and_its_driver_s_memory_goes_on(stream: Stream) -> None:
    rows: Rows = {}
    failed_at(stream, rows, 3)
    second = start(stream, rows)
    assert second.awaitTermination(900)
    assert pyslash.progress(second)[0]["replayed"]
    assert emitted(rows) == expected(stream)


def test_a_driver_that_was_replaced_ends_with_a_clear_error(stream: Stream) -> None:
    rows: Rows = {}

    def rival(epoch: int) -> None:
        if epoch == 2:
            checkpoint = str(stream.folder / "checkpoint" / "slash")
            ManifestLog(LocalFiles(Path(checkpoint, "manifests")), LocalFiles(Path(checkpoint, "runs"))).take_over()

    query = start(stream, rows, rival)
    with pytest.raises(StreamingQueryException, match="was replaced by run"):
        query.awaitTermination(900)
    assert sorted(rows) == [0, 1, 2]


def test_files_of_dead_windows_are_deleted(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "KEPT_SECONDS", 0)
    rows: Rows = {}
    assert start(stream, rows).awaitTermination(900)
    names = {path.name for path in (stream.folder / "checkpoint" / "slash" / "blocks").glob("*.arrow")}
    assert 0 < len(names) < 7
    assert cli.main(["state", "verify", str(stream.folder / "checkpoint")]) == 0
