"""The feed of the recovery bench; what it measures needs minutes, and is no test."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from eval import recovery
from eval.recovery import WINDOW_SECONDS, Feed


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
    monkeypatch.setattr(recovery, "RESULT_SECONDS", -1)
    feed = Feed(tmp_path, keys=4)
    feed.add()
    with pytest.raises(TimeoutError, match="epoch 0"):
        feed.wait(SimpleNamespace(isActive=True))
    with pytest.raises(RuntimeError, match="has ended in epoch 0: it failed"):
        feed.wait(SimpleNamespace(isActive=False, exception=lambda: "it failed"))
