"""Scenarios of Spark's StreamingQuerySuite and StreamingQueryListenerSuite, with a stateful query."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener

from tests.streaming.spark_scenarios.job import SECONDS, Job, counts, timed


def test_names_and_ids(job: Job) -> None:
    values = job.feed()
    first = job.begin(counts(values.read()).writeStream.foreachBatch(job.collect).queryName("counted"))
    job.step(values, 1)
    assert first.name == "counted"
    assert first.isActive
    assert job.spark.streams.get(first.id).runId == first.runId
    with pytest.raises(IllegalArgumentException, match="counted"):
        counts(values.read()).writeStream.format("noop").queryName("counted").start()
    first.stop()
    second = job.begin(counts(values.read()).writeStream.foreachBatch(job.collect).queryName("counted"))
    assert second.id == first.id
    assert second.runId != first.runId
    assert not first.isActive


def test_before_there_is_data(job: Job) -> None:
    values = job.feed()
    query = job.start(counts(values.read()))
    query.processAllAvailable()
    assert query.lastProgress is None or query.lastProgress["numInputRows"] == 0
    assert query.exception() is None
    assert job.batches == []


def test_progress(job: Job) -> None:
    values = job.feed()
    query = job.start(counts(values.read(), "0 seconds"))
    job.step(values, 1, 2, 3)
    job.step(values, 7)
    ran = [p for p in query.recentProgress if "addBatch" in p["durationMs"]]
    assert [p["batchId"] for p in ran] == [0, 1, 2, 3]
    assert [p["numInputRows"] for p in ran] == [3, 0, 1, 0]
    last = ran[-1]
    assert last["id"] == str(query.id)
    assert last["runId"] == str(query.runId)
    assert len(last["sources"]) == 1
    assert "FileStreamSource" in last["sources"][0]["description"]
    assert last["sink"]["description"]
    (state,) = last["stateOperators"]
    assert state["operatorName"] == "stateStoreSave"
    assert state["numRowsTotal"] == 1
    assert state["numRowsRemoved"] == 1
    assert {"numRowsUpdated", "allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs", "memoryUsedBytes"} <= {*state}
    assert {"addBatch", "getBatch", "latestOffset", "queryPlanning", "triggerExecution", "walCommit"} <= {
        *last["durationMs"]
    }


def test_explain(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    values = job.feed()
    query = job.start(counts(values.read()))
    query.explain()
    query.processAllAvailable()
    job.step(values, 1)
    capsys.readouterr()
    query.explain()
    printed = capsys.readouterr().out
    assert "StateStoreSave" in printed
    query.explain(True)
    assert "EventTimeWatermark" in capsys.readouterr().out


def test_stop_and_start_again(job: Job) -> None:
    values = job.feed()
    for value in range(1, 4):
        job.start(counts(values.read(), "0 seconds"))
        job.step(values, value)
        job.stop()
    job.start(counts(values.read(), "0 seconds"))
    assert job.step(values, 9) == [(0, 3)]


class Uncaught:
    """A handler of the JVM's threads that keeps what ended one."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def uncaughtException(self, thread: Any, error: Any) -> None:
        self.errors.append(f"{thread.getName()}: {error}")

    class Java:
        implements = ("java.lang.Thread$UncaughtExceptionHandler",)


@pytest.fixture
def uncaught(job: Job) -> Iterator[list[str]]:
    """What threads of the JVM have ended with."""
    thread: Any = job.spark._jvm.java.lang.Thread
    ensure_callback_server_started(job.spark.sparkContext._gateway)
    handler = Uncaught()
    before = thread.getDefaultUncaughtExceptionHandler()
    thread.setDefaultUncaughtExceptionHandler(handler)
    yield handler.errors
    thread.setDefaultUncaughtExceptionHandler(before)


@pytest.mark.parametrize("place", ["below", "above"])
def test_stop_in_the_middle_of_a_micro_batch(job: Job, uncaught: list[str], place: str) -> None:
    system: Any = job.spark._jvm.java.lang.System
    begun = f"pyslash.tests.begun.{place}"
    calls = [("lang.System", "setProperty", f"'{begun}', 'yes'"), ("lang.Thread", "sleep", f"{SECONDS * 1000}L")]
    sleeps = " || ".join(f"java_method('java.{of}', '{method}', {given})" for of, method, given in calls) + " != ''"
    values = job.feed()
    rows = values.read().where(sleeps) if place == "below" else values.read()
    counted = counts(rows, "0 seconds")
    query = job.begin((counted.where(sleeps) if place == "above" else counted).writeStream, format="noop")
    try:
        values.add(1)
        values.add(20)
        deadline = time.monotonic() + SECONDS
        while system.getProperty(begun) is None and time.monotonic() < deadline:
            assert query.isActive, query.exception()
            time.sleep(0.01)
        assert system.getProperty(begun) == "yes"
        query.stop()
    finally:
        system.clearProperty(begun)
    assert query.exception() is None
    assert uncaught == []
    job.start(counts(values.read(), "0 seconds"))
    assert job.new() == [(0, 1)]


def test_available_now(job: Job) -> None:
    values = job.feed()
    values.add(1, 2)
    values.add(7)
    values.add(13)
    query = job.begin(
        counts(values.read(), "0 seconds").writeStream.foreachBatch(job.collect).trigger(availableNow=True)
    )
    assert query.awaitTermination(SECONDS)
    assert not query.isActive
    assert query.exception() is None
    assert job.batches == [(0, []), (1, []), (2, [(0, 2)]), (3, [(5, 1)])]


def test_a_failed_query_tells_its_error(job: Job) -> None:
    values = job.feed()
    rows = timed(values.read(), "0 seconds").withColumn("bad", F.expr("CAST(raise_error('no such value') AS STRING)"))
    query = job.start(rows.groupBy(F.window("time", "5 seconds")).agg(F.max("bad")))
    values.add(1)
    with pytest.raises(StreamingQueryException, match="no such value"):
        query.processAllAvailable()
    with pytest.raises(StreamingQueryException, match="no such value"):
        query.awaitTermination(SECONDS)
    assert "USER_RAISED_EXCEPTION" in str(query.exception())


class Events(StreamingQueryListener):
    """Keeps what it is told of one query."""

    def __init__(self) -> None:
        self.started: list[Any] = []
        self.progress: list[Any] = []
        self.terminated: list[Any] = []
        self.ended = threading.Event()

    def onQueryStarted(self, event: Any) -> None:
        self.started.append(event)

    def onQueryProgress(self, event: Any) -> None:
        self.progress.append(event.progress)

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        self.terminated.append(event)
        self.ended.set()


@pytest.fixture
def events(job: Job) -> Iterator[Events]:
    listener = Events()
    job.spark.streams.addListener(listener)
    yield listener
    job.spark.streams.removeListener(listener)


def test_a_listener_is_told_of_a_query(job: Job, events: Events) -> None:
    values = job.feed()
    query = job.begin(counts(values.read(), "0 seconds").writeStream.foreachBatch(job.collect).queryName("told"))
    job.step(values, 1, 2)
    job.step(values, 7)
    query.stop()
    assert events.ended.wait(SECONDS)
    assert [(str(event.id), str(event.runId), event.name) for event in events.started] == [
        (query.id, query.runId, "told")
    ]
    ran = [p for p in events.progress if "addBatch" in p.durationMs]
    assert [(p.batchId, p.numInputRows) for p in ran] == [(0, 2), (1, 0), (2, 1), (3, 0)]
    assert [p.stateOperators[0].numRowsTotal for p in ran] == [1, 1, 2, 1]
    assert [(str(event.id), event.exception) for event in events.terminated] == [(query.id, None)]


def test_a_listener_is_told_of_an_error(job: Job, events: Events) -> None:
    values = job.feed()

    def fail(*_: Any) -> None:
        raise ValueError("told to fail")

    query = job.start(counts(values.read()), fail)
    values.add(1)
    with pytest.raises(StreamingQueryException):
        query.processAllAvailable()
    assert events.ended.wait(SECONDS)
    assert "told to fail" in events.terminated[0].exception


def test_the_younger_run_of_a_query_wins(job: Job) -> None:
    values = job.feed()
    first = job.start(counts(values.read(), "0 seconds"))
    job.step(values, 1)
    second = job.start(counts(values.read(), "0 seconds"))
    assert job.step(values, 9) == [(0, 1)]
    assert not first.isActive
    assert second.isActive


def test_observed_metrics(job: Job) -> None:
    values = job.feed()
    query = job.start(counts(values.read().observe("seen", F.count("*").alias("rows")), "0 seconds"))
    job.step(values, 1, 2)
    seen = [p["observedMetrics"]["seen"]["rows"] for p in query.recentProgress if p["observedMetrics"]]
    assert seen[0] == 2
