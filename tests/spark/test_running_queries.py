"""Queries are found by their names by processes that have no JVM."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyslash.errors import InvalidInputError
from pyslash.spark import running_queries

IDS = [f"{number:08x}-0000-0000-0000-000000000000" for number in range(3)]


def query(number: int, name: str | None) -> Any:
    stream = SimpleNamespace(resolvedCheckpointRoot=lambda: f"file:/checkpoint/{number}")
    return SimpleNamespace(id=IDS[number], name=name, _jsq=SimpleNamespace(streamingQuery=lambda: stream))


def test_of_a_name_it_is_the_query_that_was_started_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_queries, "folder_of", lambda spark: tmp_path)
    for number, name in enumerate(["clicks", None, "clicks"]):
        running_queries.add(None, query(number, name))
    (tmp_path / ".hidden").write_text("not whole")
    assert running_queries.checkpoint_of(tmp_path, "clicks") == "file:/checkpoint/2"
    for number, one in enumerate(IDS):
        assert running_queries.checkpoint_of(tmp_path, one) == f"file:/checkpoint/{number}"
    with pytest.raises(InvalidInputError, match=f"no query 'views' on pyslash, but {IDS[1]}, clicks, clicks"):
        running_queries.checkpoint_of(tmp_path, "views")


def test_a_query_whose_file_cannot_be_written_runs_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(running_queries, "folder_of", lambda spark: tmp_path / "gone")
    with caplog.at_level(logging.WARNING, "pyslash"):
        running_queries.add(None, query(0, "clicks"))
    assert "no table of state finds this query by its name: " in caplog.text


def test_queries_that_start_at_once_share_a_folder(spark: SparkSession) -> None:
    system: Any = spark._jvm.java.lang.System
    before = system.clearProperty(running_queries._PROPERTY)
    threads = 4
    barrier = Barrier(threads)

    def folder(_: int) -> Path:
        barrier.wait(60)
        return running_queries.folder_of(spark)

    try:
        with ThreadPoolExecutor(threads) as pool:
            assert len(set(pool.map(folder, range(threads)))) == 1
    finally:
        if before is not None:
            system.setProperty(running_queries._PROPERTY, before)
