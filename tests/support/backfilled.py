"""A query that takes a backfill: what it reads, what comes later, plain Spark over the same, and what may strike it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import pyslash
from pyslash.cluster.coordinator import Coordinator
from pyslash.state.manifest import Manifest, ManifestLog
from tests.faults.local import kill_agents
from tests.support.attempt import Attempt, add, attempt, make_stream, settings
from tests.support.stream import Stream

Rows = list[tuple[int, str, int]]
Job = Callable[[DataFrame], DataFrame]
Fault = Callable[[pytest.MonkeyPatch], None]
# Seconds, key and value. The watermark is ten seconds behind, so the live query's is at 1054 when the history comes.
HISTORY: list[Rows] = [[(1071, "a", 1), (1055, "b", 2), (1060, "old", 4)], [(1079, "a", 8), (1066, "c", 16)]]
LIVE: list[Rows] = [[(1045, "a", 100), (1060, "b", 200)], [(1064, "a", 400), (1052, "d", 800)]]
LATER: list[Rows] = [[(1063, "a", 1600), (1061, "b", 3200)], [(1085, "a", 6400)], [(1200, "e", 12800)]]


class Case:
    """A query over one folder of files, and its history in another one."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        job: Job,
        output: str = "append",
        *,
        history: Sequence[Rows] = HISTORY,
        live: Sequence[Rows] = LIVE,
        later: Sequence[Rows] = LATER,
    ) -> None:
        self.spark, self.folder, self.job, self.output = spark, folder, job, output
        self._history, self._live, self._later = history, live, later
        self.live = make_stream(spark, folder / "live", live)
        self.history = make_stream(spark, folder / "history", history)
        self.checkpoint = folder / "checkpoint"

    def run(self, fail_in: int | None = None, **conf: str) -> Attempt:
        """What there is of the live rows."""
        return attempt(self.job(self.live.read()), self.checkpoint, fail_in=fail_in, output=self.output, **conf)

    def backfill(self, name: str = "history", late: str = "refuse", stream: Stream | None = None) -> object:
        """Of the history."""
        with settings(self.spark, {}):
            rows = self.job((stream or self.history).read())
            return pyslash.backfill(rows, str(self.checkpoint), name, late=late, output_mode=self.output)

    def later(self) -> None:
        """More live rows."""
        for rows in self._later:
            add(self.live, rows)

    def expected(self) -> list[Attempt]:
        """Plain Spark, whose first batch has had all of the history too."""
        first = [row for rows in (*self._history, *self._live) for row in rows]
        return self._by_spark("first", [first, *self._later])

    def expected_at_once(self) -> list[Attempt]:
        """Plain Spark, to which the history comes with the batch that takes it, before that batch's other rows."""
        taking = [row for rows in (*self._history, self._later[0]) for row in rows]
        return self._by_spark("at once", self._live, [taking, *self._later[1:]])

    def _by_spark(self, name: str, *runs: Sequence[Rows]) -> list[Attempt]:
        folder, made = self.folder / "by spark" / name, []
        stream = make_stream(self.spark, folder, [])
        for batches in runs:
            for rows in batches:
                add(stream, rows)
            found = attempt(self.job(stream.read()), folder / "checkpoint", "off", output=self.output)
            assert found.error is None
            made.append(found)
        return made


def rows_of(attempts: Iterable[Attempt]) -> list[str]:
    """All that the sink got."""
    return sorted(row for one in attempts for _, rows in one.batches for row in rows)


def fails_before_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = ManifestLog.create, []

    def create(self: ManifestLog, manifest: Manifest) -> None:
        calls.append(manifest)
        if len(calls) == 1:
            raise RuntimeError("before the manifest")
        real(self, manifest)

    monkeypatch.setattr(ManifestLog, "create", create)


def kill_before_the_first(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """All agents go before the coordinator does this for the first time."""
    real: Callable[..., Any] = getattr(Coordinator, name)
    calls = []

    def struck(self: Coordinator, *given: Any) -> Any:
        calls.append(self)
        if len(calls) == 1:
            kill_agents(self)
        return real(self, *given)

    monkeypatch.setattr(Coordinator, name, struck)


def loses_all_agents_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kill_before_the_first(monkeypatch, "store")


def loses_all_agents_after_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    kill_before_the_first(monkeypatch, "commit")


def fails_in_the_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is struck here: `fail_in` is."""


FAULTS = [
    fails_before_the_manifest,
    loses_all_agents_with_it,
    loses_all_agents_after_the_manifest,
    fails_in_the_sink,
]


def taken_once(case: Case, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The rows of a query that is struck when it takes a backfill, and started again."""
    before = case.run()
    case.backfill()
    case.later()
    fault(monkeypatch)
    first = before.batches[-1][0] + 1
    struck = case.run(fail_in=first + 1 if fault is fails_in_the_sink else None)
    fails = fault in (fails_before_the_manifest, fails_in_the_sink)
    assert (struck.error is not None) == fails
    after = case.run()
    assert after.error is None
    batches = dict(before.batches) | dict(struck.batches) | dict(after.batches)  # one that failed comes again
    return sorted(row for rows in batches.values() for row in rows)
