"""A query whose state gets a name, and a second one that starts from it, of the same job or of another version.

Plain Spark is the oracle: a copy of its stopped query's whole checkpoint continues beside it.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.migrate.export import export
from pyslash.state.savepoint import drop, fork, save
from tests.streaming import test_processors as processors
from tests.support.attempt import BATCHES, Attempt, add, attempt, make_stream, settings
from tests.support.processors import COVERED, WHY_NOT, Declared, declaring, transformed
from tests.support.stream import Stream

Job = Callable[[Stream], DataFrame]
WINDOW = "window(ts, '10 seconds')"
LATER = [[(1013, "b", 1), (1085, "a", 2), (1120, "b", 4)], [(1119, "a", 8), (1140, "a", 16)]]


def windows(stream: Stream, *aggregates: str) -> DataFrame:
    found = [F.expr(one) for one in aggregates] or [F.sum("v").alias("s"), F.count("*").alias("n")]
    return stream.read().groupBy(F.expr(WINDOW), "k").agg(*found)


def chain(stream: Stream) -> DataFrame:
    """Two operators, each with state of its own."""
    return stream.read().dropDuplicates(["ts", "k"]).groupBy(F.expr(WINDOW)).agg(F.sum("v"))


def join(stream: Stream) -> DataFrame:
    left = stream.read()
    right = left.select(F.col("ts").alias("at"), F.col("k").alias("key"), F.col("v").alias("w"))
    return left.join(right, F.expr("k = key AND at BETWEEN ts - INTERVAL 30 SECONDS AND ts + INTERVAL 30 SECONDS"))


@pytest.mark.parametrize("job", [chain, *(pytest.param(job, marks=pytest.mark.nightly) for job in (windows, join))])
def test_a_fork_continues_as_a_copy_of_sparks_checkpoint_does(spark: SparkSession, tmp_path: Path, job: Job) -> None:
    stream = make_stream(spark, tmp_path, BATCHES[:2])
    ours, sparks = tmp_path / "ours", tmp_path / "sparks"
    assert attempt(job(stream), ours).batches == attempt(job(stream), sparks, "off").batches
    saved = save(str(ours), "before")
    assert saved.shared == saved.files > 0
    shutil.copytree(sparks, tmp_path / "copy")
    for rows in BATCHES[2:]:
        add(stream, rows)
    original = attempt(job(stream), ours)
    expected = attempt(job(stream), sparks, "off").batches
    assert original.batches == expected
    fork(str(ours), "before", str(tmp_path / "fork"))
    for rows in LATER:
        add(stream, rows)
    forked = attempt(job(stream), tmp_path / "fork")
    assert forked.error is None
    assert forked.ran_on_pyslash
    copied = attempt(job(stream), tmp_path / "copy", "off").batches
    assert forked.batches == copied
    assert any(rows for _, rows in copied)
    # The original goes on unharmed, whatever became of the fork and of the name.
    drop(str(ours), "before")
    shutil.rmtree(tmp_path / "fork")
    assert attempt(job(stream), ours).batches == attempt(job(stream), sparks, "off").batches
    assert original.query is not None
    assert forked.query is not None
    assert original.query.id != forked.query.id


def test_another_version_of_the_job_starts_from_a_savepoint(spark: SparkSession, tmp_path: Path) -> None:
    """One aggregate is dropped, one follows from what is there, and one is new: its rows are those since then."""
    stream = make_stream(spark, tmp_path, BATCHES[:2])
    before = ["sum(v) AS s", "count(*) AS n", "max(v) AS most"]
    now = ["avg(v) AS mean", "sum(v) AS s"]
    attempt(windows(stream, *before), tmp_path / "ours")
    attempt(windows(stream, *now), tmp_path / "sparks", "off")
    save(str(tmp_path / "ours"), "v1")
    fork(str(tmp_path / "ours"), "v1", str(tmp_path / "v2"))
    for rows in [*BATCHES[2:], *LATER]:
        add(stream, rows)
    found = attempt(windows(stream, *now), tmp_path / "v2")
    assert found.error is None
    expected = attempt(windows(stream, *now), tmp_path / "sparks", "off").batches
    assert found.batches == expected
    assert any(rows for _, rows in expected)
    refused = attempt(windows(stream, *now, "min(v)"), tmp_path / "ours")
    assert "PlanMismatchError" in str(refused.error)
    assert attempt(windows(stream, *before), tmp_path / "ours").error is None


def test_a_running_query_is_saved_as_of_the_batch_before_the_one_that_runs(spark: SparkSession, tmp_path: Path) -> None:
    stream = make_stream(spark, tmp_path, [*BATCHES, *LATER])
    original, checkpoint = Attempt(), tmp_path / "ours"

    def take(rows: DataFrame, epoch: int) -> None:
        original.batches.append((epoch, sorted(map(repr, rows.collect()))))
        if epoch == 2:
            save(str(checkpoint), "running")

    with settings(spark, {"spark.slash.mode": "require"}):
        writer = windows(stream).writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(take)
        writer.trigger(availableNow=True).start().awaitTermination()
    assert [name.name for name in (checkpoint / "slash/savepoints").iterdir()] == ["running"]
    marker = json.loads((checkpoint / "slash/savepoints/running/savepoint.json").read_text())
    assert marker["epoch"] == 1
    fork(str(checkpoint), "running", str(tmp_path / "fork"))
    forked = attempt(windows(stream), tmp_path / "fork")
    assert forked.error is None
    rows = [row for epoch, batch in original.batches for row in batch if epoch >= 2]
    assert [row for _, batch in forked.batches for row in batch] == rows
    assert rows
    assert attempt(windows(stream), checkpoint).batches == []  # it has read all


@pytest.mark.skipif(not COVERED, reason=WHY_NOT)
@pytest.mark.usefixtures("processor_store")
def test_a_fork_of_a_processor_needs_nothing_of_the_original(spark: SparkSession, tmp_path: Path) -> None:
    stream, generator = processors.made(spark, tmp_path, batches=2), random.Random(7)
    ours, sparks, forked = tmp_path / "ours", tmp_path / "sparks", tmp_path / "fork"
    for checkpoint, mode in ((sparks, "off"), (ours, "require")):
        assert attempt(processors.counted(stream.read()), checkpoint, mode).error is None
    save(str(ours), "before")
    fork(str(ours), "before", str(forked))
    shutil.rmtree(ours)
    for mode in ("require", "off"):
        processors.add(stream, generator, 1060)
        found = attempt(processors.counted(stream.read()), forked, mode)
        assert found.error is None
        assert found.batches == attempt(processors.counted(stream.read()), sparks, "off").batches
        assert found.batches
        if mode == "require":
            export(spark, str(forked))


@pytest.mark.skipif(not COVERED, reason=WHY_NOT)
@pytest.mark.usefixtures("processor_store")
def test_a_fork_knows_nothing_of_a_start_behind_its_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Spark notes the variables of a start in its first micro-batch, which here is never finished."""
    stream, generator = processors.made(spark, tmp_path, batches=1), random.Random(7)

    def query(*names: str) -> DataFrame:
        return transformed(stream.read(), declaring([*map(Declared, names)]), "None")

    first = attempt(query("one"), tmp_path / "ours")
    processors.add(stream, generator, 1060)
    assert attempt(query("one", "two"), tmp_path / "ours", fail_in=first.batches[-1][0] + 1).error is not None
    save(str(tmp_path / "ours"), "before")
    fork(str(tmp_path / "ours"), "before", str(tmp_path / "fork"))
    assert attempt(query("one"), tmp_path / "fork").error is None
    assert export(spark, str(tmp_path / "fork")).entries > 0
