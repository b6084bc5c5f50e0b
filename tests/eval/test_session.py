"""A session over an engine that needs no JVM: what is written down, in which order, and what a failure leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval import session as module
from eval.engines import BATCH
from eval.session import Comparison, Outcome, Session
from eval.steady import Steady
from tests.eval import fake, tiny

MIB = 1 << 20
WORKLOAD = replace(tiny.TUMBLING, rows=8_000, batches=4)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """With fake engines, and an oracle that needs no Spark."""
    monkeypatch.setattr(module, "ENGINES", fake.ENGINES)
    monkeypatch.setattr(module, "memory_bytes", lambda: 24 << 30)
    monkeypatch.setattr(module, "ORACLE", fake.Fake("good"))
    return Session(tmp_path, tmp_path / "results.jsonl", repeats=2)


def compare(session: Session, *engines: str, **more: Any) -> list[dict[str, Any]]:
    """The records of one comparison."""
    with session:
        session.compare(Comparison("title", WORKLOAD, engines, **more), "suite")
    written = [json.loads(line) for line in session.results.read_text().splitlines()]
    assert written == session.records
    return written


def test_a_record_says_all_about_a_run(session: Session) -> None:
    first, second = compare(session, "good")
    assert (first["repeat"], second["repeat"]) == (0, 1)
    assert first["workload"] == WORKLOAD.describe()
    assert (first["suite"], first["title"], first["engine"], first["kind"]) == ("suite", "title", "good", BATCH)
    assert first["correct"] is True
    assert first["rows"] == WORKLOAD.rows
    assert {"versions", "conf", "machine", "session", "cpu_seconds"} <= first.keys()
    assert "first_batches" not in first
    # It keeps no rows, so it was compared on a sample.
    (made,) = session.cache.glob("*/oracle")
    assert made.parent == WORKLOAD.sample().generate(session.cache)


def test_processor_time_and_memory_are_those_of_the_measured_run(session: Session) -> None:
    record, *_ = compare(session, "busy", repeats=1)
    assert 0.9 * fake.CPU_SECONDS < record["cpu_seconds"] < 1.9 * fake.CPU_SECONDS
    assert 5 * MIB < record["peak_bytes"] < 1000 * MIB


def test_processor_time_of_a_steady_stream_is_that_of_the_part(session: Session) -> None:
    record, *_ = compare(session, "kept busy", steady=Steady(warm_batches=1))
    assert 0.4 * fake.CPU_SECONDS < record["cpu_seconds"] < 1.7 * fake.CPU_SECONDS


def test_a_slow_engine_runs_on_the_first_micro_batches(session: Session) -> None:
    good, slow, *again = compare(session, "good", "wrong", first={"wrong": 1})
    assert (good["engine"], slow["engine"], *(record["engine"] for record in again)) == ("good", "wrong") * 2
    assert (slow["rows"], slow["first_batches"]) == (WORKLOAD.rows / 4, 1)
    assert slow["workload"] == good["workload"]
    assert slow["correct"] is False


def test_the_measured_runs_own_rows_are_compared(session: Session) -> None:
    right, wrong, *_ = compare(session, "kept", "kept wrong", first={"kept wrong": 1})
    assert (right["correct"], right["compared_rows"]) == (True, 7)
    assert "differences" not in right
    assert (wrong["correct"], wrong["differences"]) == (False, ["missing: key=7"])
    made = {folder.parent.name for folder in session.cache.glob("*/oracle")}
    assert made == {each.generate(session.cache).name for each in (WORKLOAD, WORKLOAD.first(1))}


def test_no_rows_agree_with_nothing(session: Session) -> None:
    record, *_ = compare(session, "kept nothing")
    assert (record["correct"], record["compared_rows"]) == (None, 0)


def test_without_an_oracle_nothing_is_measured(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ORACLE", fake.Fake("breaks"))
    (record,) = compare(session, "kept")
    assert record["error"].startswith("breaks: RuntimeError: broke")
    assert "rows_per_second" not in record


def test_an_engine_whose_run_is_long_runs_once(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONG_SECONDS", 0.5)
    assert [record["repeat"] for record in compare(session, "good")] == [0]


def test_failures_are_records_and_the_others_go_on(session: Session) -> None:
    *good, refused, broke, died = compare(session, "refuses", "breaks", "dies", "good")
    assert [record["engine"] for record in good] == ["good", "good"]
    for failed, engine, field, text in (
        (refused, "refuses", "cannot", "has no windows"),
        (broke, "breaks", "error", "breaks: RuntimeError: broke; log: "),
        (died, "dies", "error", "dies: its process is gone"),
    ):
        assert failed["engine"] == engine
        assert failed[field].startswith(text)
        assert "rows_per_second" not in failed


def test_a_cold_run_is_neither_checked_nor_warmed(session: Session) -> None:
    (record,) = compare(session, "wrong", cold=True, repeats=1)
    assert record["correct"] is None


def test_of_a_steady_stream_a_part_counts_and_the_first_rows_are_compared(session: Session) -> None:
    right, wrong, refused = compare(session, "kept", "kept wrong", "refuses", steady=Steady(warm_batches=1))
    assert (right["correct"], right["compared_rows"], right["batch_ms"]) == (True, 7, [500, 500])
    assert right["steady"]["warm_batches"] == 1
    assert "part" not in right
    assert (wrong["correct"], wrong["differences"]) == (False, ["missing: key=7"])
    assert refused["cannot"].startswith("has no windows")
    made = {folder.parent.name for folder in session.cache.glob("*/oracle")}
    assert made == {WORKLOAD.generate(session.cache).name}, "of two million rows, all that there are"


def test_a_floor_of_a_steady_stream_is_as_warm_as_what_it_is_the_floor_of(session: Session) -> None:
    compare(session, "kept", "kept floor", steady=Steady(warm_batches=1))
    told = {name: (session.cache / f"{name}.log").read_text().splitlines() for name in ("kept", "kept floor")}
    assert told["kept"] == ["run 4", "check", "steady", "run 4", "run 4"]
    assert told["kept floor"] == ["run 4", "steady", "run 4", "run 4"]
    assert [record["correct"] for record in session.records] == [True, None]


def test_engines_take_turns_if_their_heaps_are_too_much_for_the_machine(session: Session) -> None:
    small, large = (Comparison("title", WORKLOAD, ("heavy", "good", "heavy", "wrong"), memory=gib) for gib in (4, 12))
    sizes = {
        comparison.memory: [
            [outcome.engine for outcome in group]
            for group in session._groups(comparison, [Outcome(name) for name in comparison.engines])
        ]
        for comparison in (small, large)
    }
    assert sizes == {4: [["heavy", "good", "heavy", "wrong"]], 12: [["heavy", "good"], ["heavy", "wrong"]]}


def test_engines_stay_up_for_the_next_comparison_that_has_them(session: Session) -> None:
    with session:
        for engines in (("good", "wrong"), ("good",)):
            session.compare(Comparison("title", WORKLOAD, engines, repeats=1))
            assert sorted(name for name, _ in session._up) == sorted(engines)
    assert not session._up
