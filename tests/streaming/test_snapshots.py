"""Files that are written beside epochs, and stand for others: who starts again from one has Spark's rows."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.state import durable
from pyslash.state.durable import DurableState, Replacement
from pyslash.state.stored import StoredState
from tests.support.attempt import add, attempt, in_words, make_stream, settings
from tests.support.nightly import some_at_night
from tests.support.stream import Stream

BATCHES = [[(1000 + 3 * number, key, number) for key in "abc"] for number in range(8)]
LATER = [[(1030, "a", 100)], [(1300, "z", 1)]]


def windows(stream: Stream) -> DataFrame:
    return stream.read().groupBy(F.window("ts", "30 seconds"), "k").agg(F.sum("v"), F.count("*"))


def watched(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, list[Replacement]]:
    """What is set whenever a file is ready that stands for others, and those files."""
    ready, made = threading.Event(), list[Replacement]()
    real = DurableState.replace

    def replace(self: DurableState, one: Replacement) -> None:
        real(self, one)
        made.append(one)
        ready.set()

    monkeypatch.setattr(DurableState, "replace", replace)
    return ready, made


def test_a_query_goes_on_from_a_snapshot(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "MOST_FILES", 3)
    written, _ = watched(monkeypatch)
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


def joined(rows: DataFrame) -> DataFrame:
    left = rows.select("ts", F.col("k").alias("key"), "v")
    right = rows.select(F.col("ts").alias("at"), "k", F.col("v").alias("w")).where("w % 2 = 0")
    return left.join(right, F.expr("key = k and at between ts and ts + interval 20 seconds"), "left_outer")


# Each with its output mode.
OPERATORS: dict[str, tuple[str, Callable[[DataFrame], DataFrame]]] = {
    "windows": ("append", lambda rows: rows.groupBy(F.window("ts", "60 seconds"), "k").agg(F.avg("v"), F.max("v"))),
    "order": ("append", lambda rows: rows.groupBy(F.window("ts", "60 seconds"), "k").agg(F.first("v"), F.last("v"))),
    "groups": ("update", lambda rows: rows.groupBy("k").agg(F.sum("v"), F.collect_set("v"))),
    "all groups": ("complete", lambda rows: rows.groupBy("k").agg(F.count("*"), F.expr("percentile_approx(v, 0.5)"))),
    "sessions": ("append", lambda rows: rows.groupBy(F.session_window("ts", "5 seconds"), "k").agg(F.sum("v"))),
    "deduplication": ("append", lambda rows: rows.dropDuplicates(["k", "v"])),
    "join": ("append", joined),
}


@pytest.mark.parametrize("operator", some_at_night(OPERATORS, ("order", "join")))
def test_small_files_are_folded_between_snapshots(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operator: str
) -> None:
    monkeypatch.setattr(durable, "MOST_FILES", 100)
    monkeypatch.setattr(durable, "MOST_SMALL", 3)
    output, job = OPERATORS[operator]
    ready, folded = watched(monkeypatch)
    stream = make_stream(spark, tmp_path, BATCHES)
    found: list[tuple[int, list[str]]] = []

    def take(rows: DataFrame, epoch: int) -> None:
        found.append((epoch, in_words(rows.collect())))
        if epoch in (4, 7):
            assert ready.wait(120)
            ready.clear()

    with settings(spark, {"spark.slash.mode": "require"}):
        writer = job(stream.read()).writeStream.option("checkpointLocation", str(tmp_path / "ours"))
        writer.outputMode(output).foreachBatch(take).trigger(availableNow=True).start().awaitTermination()
    named = {file.name for file in StoredState.at(str(tmp_path / "ours")).manifest(7).files}
    assert all(len(one.names or ()) >= 3 for one in folded)
    assert any(one.file.name in named and named.isdisjoint(one.names or ()) for one in folded)
    expected = attempt(job(stream.read()), tmp_path / "sparks", "off", output=output).batches
    for rows in LATER:
        add(stream, rows)
    again = attempt(job(stream.read()), tmp_path / "ours", output=output)
    assert again.error is None
    sparks = attempt(job(stream.read()), tmp_path / "sparks", "off", output=output)
    assert [*found, *again.batches] == [*expected, *sparks.batches]
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
