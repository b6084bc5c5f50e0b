"""The feed of the recovery bench, and what it makes of figures; to take them needs minutes, and is no test."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from eval import loss
from eval.loss import PARTS, WINDOW_SECONDS, Feed, told_when_stuck
from eval.recovery import Figures, bars, table


def test_each_file_opens_the_windows_after_the_last(tmp_path: Path) -> None:
    feed = Feed(tmp_path, keys=8)
    feed.add(3)
    feed.add()
    first, second = (pq.read_table(path) for path in sorted(tmp_path.glob("*.parquet")))
    assert (first.num_rows, second.num_rows) == (24, 8)
    step = second["ts"][0].as_py() - first["ts"][0].as_py()
    assert step.total_seconds() == 3 * WINDOW_SECONDS
    assert sorted(second["key"].to_pylist()) == list(range(8))


def test_a_result_that_does_not_come_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "RESULT_SECONDS", -1)
    feed = Feed(tmp_path, keys=4)
    feed.add()
    with pytest.raises(TimeoutError, match="epoch 0"):
        feed.wait(SimpleNamespace(isActive=True))
    with pytest.raises(RuntimeError, match="has ended in epoch 0: it failed"):
        feed.wait(SimpleNamespace(isActive=False, exception=lambda: "it failed"))


def test_an_epoch_without_a_file_is_an_error(tmp_path: Path) -> None:
    feed = Feed(tmp_path, keys=4)
    feed.add()
    batch = SimpleNamespace(write=SimpleNamespace(format=lambda _: batch.write, mode=lambda _: batch.write))
    batch.write.save = lambda: None
    feed.arrived(batch, 0)
    feed.wait(SimpleNamespace(isActive=True))
    feed.arrived(batch, 1)
    with pytest.raises(RuntimeError, match="epoch 1 is of no file"):
        feed.wait(SimpleNamespace(isActive=True))


def test_a_query_that_stands_still_is_told_thread_by_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(loss, "jvm_of", lambda spark: 4711)
    monkeypatch.setattr(loss, "DUMP_SECONDS", 0)
    monkeypatch.setattr(loss.os, "kill", lambda *sent: told.append(sent))
    monkeypatch.setattr(loss.faulthandler, "dump_traceback", lambda file, all_threads: told.append(all_threads))
    with pytest.raises(TimeoutError, match="no result"), told_when_stuck(SimpleNamespace()):
        raise TimeoutError("no result")
    assert told == [True, (4711, signal.SIGQUIT)]


def figures(*seconds: float, restore: float = 1.0) -> Figures:
    parts = dict.fromkeys(PARTS, 0.5) | {"agents": 0.25, "restore": restore}
    return [{"seconds": one, "parts": parts, "replaced_seconds": None} for one in seconds]


def test_bars_are_of_medians() -> None:
    found = {
        "standby: executor lost": figures(3, 99, 9.5),
        "checkpoint: executor lost": figures(31, 29, 31),
        "checkpoint: driver started again": figures(9, restore=4.5),
    }
    assert [(bar.figure, bar.met) for bar in bars(found)] == [("31.00 s", False), ("9.50 s", True), ("4.75 s", True)]


def test_what_is_no_part_of_an_epoch_is_other_and_what_was_not_measured_is_a_dash() -> None:
    line = table({"spark: executor lost": figures(8)}).splitlines()[1]
    assert line.split()[3:5] == ["8.00", "8.00"]
    assert line.split()[-3:] == [f"{8 - 0.25 - 1 - 6 * 0.5:.2f}", "-", "-"]
