"""`spark.slash.mode=auto` ends no query that plain Spark would run, and says why a query is not pyslash's."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.agent.compaction.compactor import SWEEP_SECONDS
from pyslash.cluster.coordinator import Coordinator
from pyslash.driver import coverage_check
from pyslash.driver.restart.agent_search import AgentSearch
from pyslash.driver.start import hook
from pyslash.driver.start.hook import runner_of
from pyslash.errors import CheckpointError, UnsupportedQueryError
from pyslash.ingest import update_job as ingest
from pyslash.state.manifest import Manifest, ManifestLog
from tests.support.attempt import BATCHES, Attempt, add, attempt, make_stream, settings
from tests.support.nightly import some_at_night
from tests.support.stream import Stream

LAST = [(1300, "a", 1)]


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return make_stream(spark, tmp_path, BATCHES[:3])


def sums(stream: Stream) -> DataFrame:
    return stream.read().groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v").alias("s"))


def forget_but_last(checkpoint: Path) -> None:
    """What Spark has purged of its logs after many batches."""
    for log in ("offsets", "commits"):
        *old, _, _ = sorted(int(path.name) for path in (checkpoint / log).iterdir() if path.name.isdigit())
        for number in old:
            (checkpoint / log / str(number)).unlink()
            (checkpoint / log / f".{number}.crc").unlink(missing_ok=True)


# What is known when a query starts.


def test_an_old_checkpoint_of_plain_spark_goes_on_there(
    stream: Stream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("spark", "auto"):
        attempt(sums(stream), tmp_path / name, "off")
        forget_but_last(tmp_path / name)
    add(stream, LAST)
    expected = attempt(sums(stream), tmp_path / "spark", "off")
    with caplog.at_level(logging.WARNING, "pyslash"):
        found = attempt(sums(stream), tmp_path / "auto", "auto")
    assert found.batches == expected.batches != []
    assert not found.ran_on_pyslash
    assert "holds state of plain Spark; spark.slash.adopt=true moves it to pyslash" in caplog.text


def test_a_checkpoint_that_is_told_by_the_query_name(stream: Stream, tmp_path: Path) -> None:
    def run(mode: str) -> list[object]:
        rows: list[object] = []
        values = {"spark.slash.mode": mode, "spark.sql.streaming.checkpointLocation": str(tmp_path / "all")}
        with settings(stream.spark, values):
            writer = sums(stream).writeStream.queryName("sums").trigger(availableNow=True)
            query = writer.foreachBatch(lambda batch, _: rows.extend(batch.collect())).start()
            assert query.awaitTermination(900)
        return rows

    run("off")
    assert (tmp_path / "all/sums/commits/0").exists()
    add(stream, LAST)
    assert run("auto") != []
    with pytest.raises(UnsupportedQueryError, match="holds state of plain Spark"):
        run("require")


def test_a_file_system_that_pyarrow_lacks(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        coverage_check, "obstacle_of", lambda location: f"pyarrow cannot write to {location}: no such scheme"
    )
    with caplog.at_level(logging.WARNING, "pyslash"):
        found = attempt(sums(stream), tmp_path / "auto", "auto")
    assert found.batches == attempt(sums(stream), tmp_path / "spark", "off").batches
    assert not found.ran_on_pyslash
    assert "no such scheme" in caplog.text
    with pytest.raises(UnsupportedQueryError, match="no such scheme"):
        attempt(sums(stream), tmp_path / "require")


def test_state_of_ours_is_refused_where_plain_spark_would_have_to_read_it(stream: Stream, tmp_path: Path) -> None:
    attempt(sums(stream), tmp_path / "c")
    add(stream, LAST)
    with pytest.raises(UnsupportedQueryError, match=r"is pyslash's.*mode=off.*give it a new checkpointLocation"):
        attempt(sums(stream), tmp_path / "c", "off")
    sessions = F.session_window("ts", "10 seconds")
    uncovered = stream.read().groupBy(sessions, "k").agg(F.collect_list("v"))
    with pytest.raises(UnsupportedQueryError, match=r"is pyslash's.*collect_list.*Let pyslash run the query as it was"):
        attempt(uncovered, tmp_path / "c", "auto")
    assert attempt(sums(stream), tmp_path / "c").error is None


def test_plain_spark_without_pyslash_ends_in_its_first_batch_on_state_of_ours(stream: Stream, tmp_path: Path) -> None:
    """As docs/differences.md has it: it goes on with nothing, and finds no state of its own."""
    attempt(sums(stream), tmp_path / "c")
    add(stream, LAST)
    writer = sums(stream).writeStream.option("checkpointLocation", str(tmp_path / "c")).format("noop")
    with pytest.raises(StreamingQueryException, match="CANNOT_LOAD_STATE_STORE"):
        writer.trigger(availableNow=True).start().awaitTermination(900)


# The first batch, which tells the rest.


@pytest.mark.parametrize("path", some_at_night(["rows", "files"], {"files"}))
def test_executors_on_which_no_agent_starts(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    """As executors without pyslash: their Python has no such module."""
    monkeypatch.setattr(stream.spark.sparkContext, "pythonExec", "/bin/false")
    if path == "files":
        lacks = ModuleNotFoundError("No module named 'pyslash'")
        monkeypatch.setattr(ingest, "run_numbered", lambda *_: (_ for _ in ()).throw(lacks))
    add(stream, BATCHES[3])
    expected = attempt(sums(stream), tmp_path / "spark", "off")
    monkeypatch.setattr(hook, "_secret", secrets.token_bytes(32))  # no agent of an earlier test is found
    with caplog.at_level(logging.WARNING, "pyslash"):
        required = attempt(sums(stream), tmp_path / "require", ingest=path, agent_startTimeout="5")
        found = attempt(sums(stream), tmp_path / "auto", "auto", ingest=path, agent_startTimeout="5")
    assert ("AgentStartError" if path == "rows" else "ModuleNotFoundError") in str(required.error)
    assert required.batches == []
    assert_same(found, expected)
    assert "runs on plain Spark" in caplog.text
    assert not coverage_check.Checkpoint(stream.spark, str(tmp_path / "auto")).is_ours
    add(stream, LAST)
    again, expected = (
        attempt(sums(stream), tmp_path / name, mode) for name, mode in [("auto", "auto"), ("spark", "off")]
    )
    assert_same(again, expected)
    monkeypatch.undo()  # what has required pyslash begins with it, once it can
    assert attempt(sums(stream), tmp_path / "require").ran_on_pyslash


def assert_same(found: Attempt, expected: Attempt) -> None:
    assert found.error is None
    assert not found.ran_on_pyslash
    assert found.batches == expected.batches != []
    assert found.watermarks == expected.watermarks


@pytest.mark.parametrize("reaches", [False, True])
def test_a_batch_that_fails_once_its_rows_were_read_is_counted_once(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reaches: bool
) -> None:
    """The manifest cannot be written, or seems so: Spark reads the rows again, and no state of ours is left."""
    create = ManifestLog.create

    def fail(log: ManifestLog, manifest: Manifest) -> None:
        if reaches:
            create(log, manifest)
        raise CheckpointError("the store does not answer")

    expected = attempt(sums(stream), tmp_path / "spark", "off")
    monkeypatch.setattr(ManifestLog, "create", fail)
    assert attempt(sums(stream), tmp_path / "again", "auto", fail_in=0).error is not None
    found = attempt(sums(stream), tmp_path / "auto", "auto")
    assert_same(found, expected)
    assert found.query is not None
    assert expected.query is not None
    rows = [[(one.numInputRows, one.eventTime) for one in a.query.recentProgress] for a in (found, expected) if a.query]
    assert rows[0] == rows[1]
    runner = runner_of(found.query)
    assert runner is not None
    assert runner.operators[0].state is None
    assert not coverage_check.Checkpoint(stream.spark, str(tmp_path / "auto")).is_ours
    monkeypatch.undo()
    again = attempt(sums(stream), tmp_path / "again", "auto")  # nobody has finished its first batch
    assert again.ran_on_pyslash
    assert again.batches == expected.batches


def test_agents_that_have_dropped_a_query_keep_what_its_next_run_begins_with(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise CheckpointError("the store does not answer")

    expected = attempt(sums(stream), tmp_path / "spark", "off")
    create, store = ManifestLog.create, Coordinator.store
    monkeypatch.setattr(ManifestLog, "create", fail)
    assert attempt(sums(stream), tmp_path / "again", "auto", fail_in=0).error is not None
    monkeypatch.setattr(ManifestLog, "create", create)

    def store_late(self: Coordinator, *given: Any) -> Any:
        if not waited:
            waited.append(time.sleep(SWEEP_SECONDS + 1))
        return store(self, *given)

    waited: list[None] = []
    monkeypatch.setattr(Coordinator, "store", store_late)
    again = attempt(sums(stream), tmp_path / "again")
    assert again.error is None
    assert again.batches == expected.batches


def test_an_error_of_the_data_is_sparks_own(stream: Stream, tmp_path: Path) -> None:
    wrong = stream.read().withColumn("v", F.col("k").cast("bigint"))
    wrong = wrong.groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v").alias("s"))
    with settings(stream.spark, {"spark.sql.ansi.enabled": "true"}):
        found, expected = (attempt(wrong, tmp_path / mode, mode) for mode in ("auto", "off"))
    for one in (found, expected):
        assert one.error is not None
        assert "CAST_INVALID_INPUT" in str(one.error)
    assert found.batches == expected.batches == []
    repaired = sums(stream)
    assert attempt(repaired, tmp_path / "auto", "auto").ran_on_pyslash  # nobody has finished a batch there


def test_a_query_that_is_stopped_in_its_first_batch_does_not_go_on_plain_spark(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    updating, calls = threading.Event(), []

    def update(*_: object) -> object:
        updating.set()
        stream.spark.sparkContext.parallelize([0], 1).foreach(lambda _: __import__("time").sleep(60))
        return []

    monkeypatch.setattr(ingest.Ingest, "update", update)
    with settings(stream.spark, {"spark.slash.mode": "auto"}):
        writer = sums(stream).writeStream.option("checkpointLocation", str(tmp_path / "c"))
        query = writer.foreachBatch(lambda rows, number: calls.append(number)).start()
        assert updating.wait(60)
        runner = runner_of(query)
        query.stop()
    assert not query.isActive
    assert runner is not None
    assert not runner.is_left_to_spark
    assert calls == []
    monkeypatch.undo()
    assert attempt(sums(stream), tmp_path / "c").ran_on_pyslash


def test_a_first_batch_that_is_logged_is_not_given_to_plain_spark(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink may have its rows: what fails then is the query's error, and the state is there once it is mended."""
    first = attempt(sums(stream), tmp_path / "c", "auto", fail_in=0)
    assert first.error is not None
    with monkeypatch.context() as patch:
        patch.setattr(AgentSearch, "for_run", lambda *_: (_ for _ in ()).throw(CheckpointError("the store is away")))
        second = attempt(sums(stream), tmp_path / "c", "auto")
    assert "the store is away" in str(second.error)
    assert second.batches == []
    third = attempt(sums(stream), tmp_path / "c", "auto")
    assert third.error is None
    assert third.ran_on_pyslash
    assert third.batches == attempt(sums(stream), tmp_path / "spark", "off").batches


def test_a_driver_that_was_replaced_leaves_the_first_batch_to_the_other_one(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails in its first batch, behind another driver's first run: what that one logs is not its own to delete."""
    slash, withdrawn = tmp_path / "c/slash", []
    monkeypatch.setattr(ManifestLog, "withdraw", lambda _, epoch: withdrawn.append(epoch))

    def update(*_: object) -> object:
        (run,) = (int(file.name) for file in (slash / "runs").iterdir() if file.name.isdigit())
        (slash / "runs" / str(run + 1)).write_text("another driver")
        raise ValueError("a bad read")

    monkeypatch.setattr(ingest.Ingest, "update", update)
    found = attempt(sums(stream), tmp_path / "c", "auto")
    assert "FencedError" in str(found.error)
    assert found.batches == withdrawn == []


# The settings of another run.


@pytest.mark.parametrize(
    "durabilities", [("checkpoint", "off", "checkpoint"), ("checkpoint", "replica"), ("off", "checkpoint")]
)
def test_another_durability_is_refused_or_gives_the_right_rows(
    stream: Stream, tmp_path: Path, durabilities: tuple[str, ...]
) -> None:
    first, *others = durabilities
    attempt(sums(stream), tmp_path / "spark", "off")
    attempt(sums(stream), tmp_path / "c", durability=first)
    add(stream, BATCHES[3])
    expected = attempt(sums(stream), tmp_path / "spark", "off").batches
    for other in others:
        found = attempt(sums(stream), tmp_path / "c", "auto", durability=other)
        if found.error is None:
            assert found.batches == expected
        else:
            assert "was written with another spark.slash.durability" in str(found.error) or "StateLostError" in str(
                found.error
            )
            assert found.batches == []
    assert (found.error is None) == (durabilities[-1] == first)


# What a job sees of its query.


@pytest.fixture(params=["off", "require"])
def mode(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    with settings(spark, {"spark.slash.mode": request.param}):
        yield request.param


def test_what_the_function_raises_is_the_querys_exception_and_it_is_called_once(
    stream: Stream, tmp_path: Path, mode: str
) -> None:
    calls: list[int] = []

    def fail(rows: DataFrame, number: int) -> None:
        calls.append(number)
        raise ZeroDivisionError("the job's own")

    query = sums(stream).writeStream.foreachBatch(fail).option("checkpointLocation", str(tmp_path / "c")).start()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(900)
    assert calls == [0]
    assert "FOREACH_BATCH_USER_FUNCTION_ERROR" in str(raised.value)
    assert "ZeroDivisionError: the job's own" in str(raised.value)
    assert "During handling of the above exception" not in str(raised.value)


def test_explain_and_progress_work(
    stream: Stream, tmp_path: Path, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = sums(stream).writeStream.foreachBatch(lambda rows, number: print(rows.count()))
    query = writer.option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        query.processAllAvailable()
        query.explain()
        assert "StateStoreSave" in capsys.readouterr().out
        assert query.lastProgress is not None
        (operator,) = query.lastProgress.stateOperators
        assert operator.operatorName == "stateStoreSave"
        assert [one.numInputRows for one in query.recentProgress if one.numInputRows] == [3, 3, 4]
    finally:
        query.stop()
    assert query.exception() is None
    assert bool(pyslash.progress(query)) == (mode == "require")


def test_a_query_that_is_stopped_while_its_agents_are_looked_for_does_not_begin_again(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert attempt(sums(stream), tmp_path / "c").error is None
    add(stream, LAST)
    searching, searches, calls, real = threading.Event(), list[None](), list[int](), AgentSearch.for_run

    def search(self: AgentSearch, session: SparkSession, *given: Any) -> Any:
        searches.append(None)
        searching.set()
        session.sparkContext.parallelize([0], 1).foreach(lambda _: time.sleep(60))
        return real(self, session, *given)

    monkeypatch.setattr(AgentSearch, "for_run", search)
    with settings(stream.spark, {"spark.slash.mode": "require"}):
        writer = sums(stream).writeStream.option("checkpointLocation", str(tmp_path / "c"))
        query = writer.foreachBatch(lambda rows, number: calls.append(number)).start()
        assert searching.wait(60)
        query.stop()
    assert (len(searches), calls, query.exception()) == (1, [], None)
