"""What an ended query leaves in the agents: nothing, where its checkpoint has it all."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.cluster.find_agents import find_agents
from pyslash.driver.epoch import EpochRunner
from pyslash.driver.start import hook
from pyslash.spark.failure import StoppedError
from tests.agent.blocks import attach
from tests.agent.test_compaction import eventually
from tests.support.stream import Outcome, Stream, differences, run, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])
WINDOW = "10 seconds"


def table(start: float) -> pa.Table:
    return pa.table({"ts": [seconds(start)] * 100, "k": list(range(100))}, SCHEMA)


def test_an_ended_query_frees_its_memory_and_goes_on_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path / "first", SCHEMA, delay_seconds=0)
    other = Stream(spark, tmp_path / "other", SCHEMA, delay_seconds=0)
    stream.add(table(1000))
    other.add(table(1000))

    def ran(which: Stream) -> Outcome:
        return run(which.read().groupBy(F.window("ts", WINDOW), "k").count(), which.folder)

    first = ran(stream)
    assert first.rows == []  # the window is open: the agents held all of it when the query ended
    assert ran(other).progress[0]["pinned_bytes"] == first.progress[0]["pinned_bytes"] > 0
    stream.add(table(2000))
    expected = stream.expected(F.window("ts", WINDOW), [F.col("k")], [F.count("*")])
    assert len(expected) == 100
    assert list(differences(ran(stream).rows, expected, 1)) == []


def test_a_query_ends_with_nobody_who_starts_another(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook._sweeper._task, "_seconds", 0.2)
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=0)
    stream.add(table(1000))
    pyslash.enable(spark)
    try:
        counted = stream.read().groupBy(F.window("ts", WINDOW), "k").count()
        writer = counted.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.foreachBatch(lambda rows, epoch: None).trigger(availableNow=True).start()
        query.awaitTermination()
        assert eventually(lambda: hook.runner_of(query) is None)
        assert len(pyslash.progress(query)) == 2
    finally:
        pyslash.disable()


def test_a_query_is_let_go_of_by_the_look_after_the_one_that_found_it_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=0)
    stream.add(table(1000))
    pyslash.enable(spark)
    try:
        sweeper = hook._Sweeper()
        sweeper._step()
        counted = stream.read().groupBy(F.window("ts", WINDOW), "k").count()
        writer = counted.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.foreachBatch(lambda rows, epoch: None).trigger(availableNow=True).start()
        query.awaitTermination()
        # It began and ended between two looks.
        found = []
        for _ in range(2):
            sweeper._step()
            found.append(hook.runner_of(query) is None)
        assert found == [False, True]
    finally:
        pyslash.disable()


def test_a_query_waits_a_moment_for_what_others_have_left_with_an_agent_that_hangs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "_PATIENCE_SECONDS", 0.1)
    stream, answers = Stream(spark, tmp_path, SCHEMA, delay_seconds=0), threading.Event()
    hung = SimpleNamespace(
        ending=threading.Lock(), is_running=False, end=lambda resumable: answers.wait(600), progress=None
    )
    monkeypatch.setitem(hook._runners, "hung", (SimpleNamespace(isActive=False, id=""), hung, False))  # type: ignore[arg-type]
    for batch in range(2):
        stream.add(table(1000 + 1000 * batch))
        assert run(stream.read().groupBy(F.window("ts", WINDOW), "k").count(), stream.folder).batches
    assert "hung" in hook._runners
    answers.set()
    assert eventually(lambda: "hung" not in hook._runners)


def test_a_query_begins_once_its_run_before_is_let_go_of(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "_PATIENCE_SECONDS", 0)
    stream, order, begun = Stream(spark, tmp_path, SCHEMA, delay_seconds=0), [], threading.Event()

    def end_slowly(_: int) -> None:
        (_, runner, _), end = list(hook._runners.values())[-1], EpochRunner.end

        def end_of_run(resumable: bool) -> None:
            begun.wait(0.5)  # which it does not, unless the next run has an epoch too early
            order.append("let go")
            end(runner, resumable)

        monkeypatch.setattr(runner, "end", end_of_run)

    def has_begun(_: int) -> None:
        order.append("epoch")
        begun.set()

    for batch, after in enumerate([end_slowly, has_begun]):
        stream.add(table(1000 + 1000 * batch))
        run(stream.read().groupBy(F.window("ts", WINDOW), "k").count(), stream.folder, after=after)
    assert order[0] == "let go"
    assert order.count("let go") == 1


def test_of_ended_queries_the_figures_of_the_last_are_kept(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "_MOST_ENDED", 2)
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=0)
    stream.add(table(1000))
    pyslash.enable(spark)
    spark.conf.set("spark.slash.mode", "require")
    queries = []
    try:
        for number in range(4):
            counted = stream.read().groupBy(F.window("ts", WINDOW), "k").count()
            writer = counted.writeStream.option("checkpointLocation", str(tmp_path / f"checkpoint {number}"))
            queries.append(writer.foreachBatch(lambda rows, epoch: None).trigger(availableNow=True).start())
            queries[-1].awaitTermination()
    finally:
        spark.conf.unset("spark.slash.mode")
        pyslash.disable()
    # Of each query an epoch with rows, and one without, in which Spark lets the watermark close windows.
    assert [len(pyslash.progress(query)) for query in queries] == [0, 2, 2, 2]
    assert [hook.runner_of(query) is None for query in queries] == [True, True, True, False]


def test_a_query_that_is_being_stopped_is_let_go_of_when_its_micro_batch_is_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream, writing, goes_on = Stream(spark, tmp_path, SCHEMA, delay_seconds=0), threading.Event(), threading.Event()
    stream.add(table(1000))

    def take(rows: DataFrame, epoch: int) -> None:
        rows.collect()
        writing.set()
        goes_on.wait(60)

    pyslash.enable(spark)
    try:
        counted = stream.read().groupBy(F.window("ts", WINDOW), "k").count()
        writer = counted.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.foreachBatch(take).start()
        assert writing.wait(60)
        stopping = threading.Thread(target=query.stop)
        stopping.start()
        assert eventually(lambda: not query.isActive)
        hook._sweep()  # as is done some seconds later
        assert hook.runner_of(query) is not None
        goes_on.set()
        stopping.join(60)
        assert query.exception() is None
        hook._sweep()
        assert hook.runner_of(query) is None
    finally:
        goes_on.set()
        pyslash.disable()


def test_no_epoch_begins_once_a_query_is_let_go_of() -> None:
    runner: Any = object.__new__(EpochRunner)
    runner.is_running, runner.is_over = False, True
    with pytest.raises(StoppedError):
        runner(None, 1)
    assert not runner.is_running


@pytest.mark.parametrize("ends", ["failed", "stopped"])
def test_a_first_micro_batch_that_is_not_done_leaves_nothing_in_the_agents(
    spark: SparkSession, tmp_path: Path, ends: str
) -> None:
    """No receipt has told the driver of an agent by then."""
    waits = tmp_path / "waits"

    @F.udf("bigint")
    def odd(k: int) -> int:
        if k == 99:
            waits.touch()
            time.sleep(5 if ends == "failed" else 60)  # the other tasks have published by then
            raise ValueError("a bad record")
        return k

    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=0)
    stream.add(table(1000))
    pyslash.enable(spark)
    spark.conf.set("spark.slash.mode", "require")
    try:
        rows = stream.read().repartition(4, "k").withColumn("k", odd("k"))
        counted = rows.groupBy(F.window("ts", WINDOW), "k").count()
        writer = counted.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.foreachBatch(lambda rows, epoch: None).trigger(availableNow=True).start()
        held = partial(blocks_of, spark, UUID(str(query.id)).bytes)
        assert eventually(lambda: waits.exists() and bool(held()))
        if ends == "stopped":
            query.stop()
        else:
            with pytest.raises(StreamingQueryException, match="a bad record"):
                query.awaitTermination()
        hook._sweep()
        assert held() == []
    finally:
        spark.conf.unset("spark.slash.mode")
        pyslash.disable()


def blocks_of(spark: SparkSession, query: bytes) -> list[Any]:
    """What the agents of the executors hold of a query."""
    agents = find_agents(spark, hook._secret, 256 << 20, 60)
    return [block for agent in agents for block in attach(agent).blocks() if block[4] == query]
