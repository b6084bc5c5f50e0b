"""The demo's progress is read from the checkpoint that Spark writes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pyslash.demo.run import Progress, progress_of, spark_submit


def test_a_stream_that_has_not_started(tmp_path: Path) -> None:
    assert progress_of(tmp_path) == Progress(0, 0.0)


def test_batches_and_seconds_follow_the_commits(tmp_path: Path) -> None:
    (tmp_path / "commits").mkdir()
    for name, when in (("metadata", 100), ("commits/0", 103), ("commits/1", 107), ("commits/.1.crc", 999)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (when, when))
    assert progress_of(tmp_path) == Progress(2, 7.0)


def test_batches_count_whose_commits_spark_has_deleted(tmp_path: Path) -> None:
    (tmp_path / "commits").mkdir()
    for name in ("metadata", *(f"commits/{number}" for number in range(264, 365))):
        (tmp_path / name).touch()
    assert progress_of(tmp_path).batches == 365


def test_spark_submit_is_found_wherever_python_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert spark_submit().is_file()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert spark_submit() == tmp_path / "bin" / "spark-submit"
