"""Snapshots are written beside epochs, and stand for what came before: who starts again from one has Spark's rows."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.state import durable
from pyslash.state.durable import DurableState
from pyslash.state.stored import StoredState
from tests.support.attempt import add, attempt, in_words, make_stream, settings
from tests.support.stream import Stream

BATCHES = [[(1000 + 3 * number, key, number) for key in "abc"] for number in range(8)]
LATER = [[(1030, "a", 100)], [(1300, "z", 1)]]


def windows(stream: Stream) -> DataFrame:
    return stream.read().groupBy(F.window("ts", "30 seconds"), "k").agg(F.sum("v"), F.count("*"))


def test_a_query_goes_on_from_a_snapshot(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "MOST_FILES", 3)
    written = threading.Event()
    real = DurableState.snapshot

    def snapshot(self: DurableState, *given: Any) -> None:
        real(self, *given)
        written.set()

    monkeypatch.setattr(DurableState, "snapshot", snapshot)
    stream, checkpoint = make_stream(spark, tmp_path, BATCHES), tmp_path / "ours"
    found: list[tuple[int, list[str]]] = []

    def take(rows: DataFrame, epoch: int) -> None:
        found.append((epoch, in_words(rows.collect())))
        if epoch == 5:
            assert written.wait(120)  # beside this epoch at the latest, which is committed

    with settings(spark, {"spark.slash.mode": "require"}):
        writer = windows(stream).writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(take)
        writer.trigger(availableNow=True).start().awaitTermination()
    state = StoredState.at(str(checkpoint))
    assert not any(file.snapshot for file in state.manifest(2).files)
    files = state.manifest(7).files
    (covers,) = (file for file in files if "-snapshot-" in file.name)
    assert covers.snapshot
    assert all(file.epoch > covers.epoch for file in files if file != covers)
    sparks = tmp_path / "sparks"
    expected = attempt(windows(stream), sparks, "off").batches
    for rows in LATER:
        add(stream, rows)
    again = attempt(windows(stream), checkpoint)
    assert again.error is None
    assert [*found, *again.batches] == [*expected, *attempt(windows(stream), sparks, "off").batches]
    assert any(rows for _, rows in again.batches)


def test_a_checkpoint_that_is_deleted_behind_its_query_does_not_come_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "MOST_FILES", 1)  # so that one is due when the query ends
    checkpoint = tmp_path / "ours"
    assert attempt(windows(make_stream(spark, tmp_path, BATCHES[:1])), checkpoint).error is None
    shutil.rmtree(checkpoint)
    for thread in threading.enumerate():
        if thread.name == "pyslash snapshots":
            thread.join()
    assert not checkpoint.exists()
