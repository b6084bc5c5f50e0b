"""Whole queries on executors in networks of their own, in a small form; and what is made of their figures."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eval.engines import ENGINES
from eval.meter import MARK
from eval.scale import queries
from eval.scale.processes import AGENTS, DRIVER, EXECUTORS, ByKind
from eval.scale.queries import SLASH, SOURCE, Row, bars, check_seen

BUSY = "import time\nwhile time.process_time() < 1: pass\nprint(flush=True)\ninput()"


@pytest.mark.nightly
def test_each_engine_runs_the_same_stream_on_all_executors(tmp_path: Path) -> None:
    """That they emit the same rows, the command itself checks."""
    out = tmp_path / "queries.json"
    parser = argparse.ArgumentParser()
    queries.add_arguments(parser)
    options = ["--executors", "2", "--rows", "20000", "--keys", "5000", "--batches", "4", "--out", str(out)]
    assert queries.main(parser.parse_args(options)) == 0
    rows = {row["engine"]: Row(**row) for row in json.loads(out.read_text())["rows"]}
    assert {*rows} == {*queries.ENGINES}
    cores = os.cpu_count() or 1
    for row in rows.values():
        took = row.driver_ms + row.agents_ms + row.executors_ms
        assert took < 2 * cores * row.batch_ms  # half of it between micro-batches
        assert min(row.driver_ms, row.executors_ms) > 5  # what planning takes, and reading 16 files
    assert rows[SLASH].agents_ms > 1
    assert rows[SOURCE].added_ms == rows[SOURCE].driver_added_ms == 0
    assert rows["RocksDB, tuned"].added_ms > 0


def test_the_tuned_store_is_the_one_of_the_other_measurements() -> None:
    assert queries.ENGINES["RocksDB, tuned"].items() >= ENGINES["spark-rocksdb"].conf.items()


def test_a_round_that_does_not_count_is_not_the_only_one(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    queries.add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--rounds", "1"])
    assert "the first round does not count: give 2 or more" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seen", "has_agents"),
    [((0, 4, 2), True), ((1, 0, 2), True), ((1, 4, 1), True), ((0, 0, 2), False), ((1, 0, 1), False)],
)
def test_what_the_meter_has_not_seen_is_no_figure(seen: tuple[int, int, int], has_agents: bool) -> None:
    kinds = (DRIVER, AGENTS, EXECUTORS)
    with pytest.raises(RuntimeError, match=f"driver {seen[0]} of 1, executors {seen[2]} of 2, agents {seen[1]} of"):
        check_seen(dict(zip(kinds, seen, strict=True)), 2, has_agents)
    check_seen(dict(zip(kinds, (1, int(has_agents), 2), strict=True)), 2, has_agents)


def test_processor_time_is_told_apart_by_what_processes_are(tmp_path: Path) -> None:
    """One that is of no application counts for nobody; a driver's Python is no JVM."""
    java = tmp_path / "java"
    java.symlink_to(sys.executable)
    mark = secrets.token_hex(8)
    words = {DRIVER: "job.py", AGENTS: "pyslash.agent", EXECUTORS: "CoarseGrainedExecutorBackend", "": "nobody"}
    with ByKind(mark) as meter:
        began, started = time.time(), []
        for kind, word in words.items():
            environment = {**os.environ, MARK: mark if kind else "another"}
            command = [java if kind == EXECUTORS else sys.executable, "-c", BUSY, word]
            pipe = subprocess.PIPE
            started.append(subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe))
        try:
            for one in started:
                assert one.stdout is not None
                one.stdout.readline()
            deadline = time.monotonic() + 30
            found = {}
            while len(found) < 3 or min(found.values()) < 0.9:  # a sample has to follow
                assert time.monotonic() < deadline, found
                time.sleep(0.2)
                found = meter.between(began, time.time())
        finally:
            for one in started:
                one.communicate(b"\n")
    assert {*found} == {DRIVER, AGENTS, EXECUTORS}
    assert all(0.9 < seconds < 2 for seconds in found.values())
    assert meter.seen() == {DRIVER: 0, AGENTS: 1, EXECUTORS: 1}


def test_bars_are_of_what_pyslash_adds() -> None:
    def row(executors: int, added: float, agents: float, driver: float) -> Row:
        return Row(executors, SLASH, 0, agents, 0, added, driver, 0)

    few = row(2, added=100, agents=20, driver=50)
    assert [bar.met for bar in bars([few, row(16, added=50, agents=160, driver=60)])] == [True, True, True]
    assert [bar.met for bar in bars([few, row(16, added=51, agents=161, driver=61)])] == [False, False, False]
    negative = [row(2, added=100, agents=20, driver=-5), row(16, added=50, agents=160, driver=1)]
    assert [(bar.figure, bar.met) for bar in bars(negative)][1] == ("-5 to 1 ms", False)
    assert bars([few]) == []
