"""How a query fails: in our own words, as plain Spark would, or by what the job's own function has raised."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from pyslash.driver.epoch import EpochRunner
from pyslash.driver.start import hook
from pyslash.errors import StateLostError
from tests.support.attempt import BATCHES, add, attempt, make_stream, settings
from tests.support.stream import Stream


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return make_stream(spark, tmp_path, BATCHES[:1])


def sums(rows: DataFrame, seconds: int = 10) -> DataFrame:
    return rows.groupBy(F.window("ts", f"{seconds} seconds"), "k").agg(F.sum("v").alias("s"))


def why(error: BaseException | None) -> str:
    """What is told behind the words with which Spark begins each error of a query."""
    said = str(error).partition("terminated with exception: ")[2].partition("=== Streaming Query ===")[0]
    assert said, error
    return said


def in_brief(said: str) -> str:
    """Without the numbers of tasks and the stack of the JVM, which earlier releases tell too."""
    return re.sub(r"\d+", "N", said.partition("\n\tat ")[0])


def failed(df: DataFrame, sink: Callable[[DataStreamWriter], DataStreamWriter], checkpoint: Path, mode: str) -> str:
    with settings(df.sparkSession, {"spark.slash.mode": mode}):
        writer = sink(df.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint)))
        query = writer.trigger(availableNow=True).start()
        assert (hook.runner_of(query) is not None) == (mode != "off")
        with pytest.raises(StreamingQueryException) as raised:
            query.awaitTermination(900)
    return why(raised.value)


def test_another_query_on_a_checkpoint_is_told_in_our_words(stream: Stream, tmp_path: Path) -> None:
    assert attempt(sums(stream.read()), tmp_path / "c").error is None
    add(stream, BATCHES[1])
    said = why(attempt(sums(stream.read(), 20), tmp_path / "c").error)
    assert said.startswith("PlanMismatchError: ")
    assert "Traceback" not in said
    assert "FOREACH_BATCH" not in said


@pytest.mark.parametrize("where", ["below", "above"])
def test_what_a_function_in_the_query_raises_is_sparks_error_and_it_runs_once(
    stream: Stream, tmp_path: Path, where: str
) -> None:
    def fail(value: int) -> int:
        os.close(os.open(f"{calls}/{uuid.uuid4()}", os.O_CREAT))
        raise ValueError("the job's own")

    def query(rows: DataFrame) -> DataFrame:
        function = F.udf(fail, "bigint")
        below = rows.withColumn("v", function("v")) if where == "below" else rows
        above = sums(below).coalesce(1)  # one task, which is the one that fails
        return above if where == "below" else above.withColumn("s", function("s"))

    said, counts = [], []
    for mode in ("off", "auto"):
        calls = tmp_path / f"calls-{mode}"
        calls.mkdir()
        said.append(failed(query(stream.read()), lambda writer: writer.format("noop"), tmp_path / mode, mode))
        counts.append(len(list(calls.iterdir())))
    assert in_brief(said[0]) == in_brief(said[1])
    assert "ValueError: the job's own" in said[0]
    assert "FOREACH_BATCH" not in said[0]
    assert counts[0] == counts[1] > 0


def test_what_a_sink_raises_is_sparks_error(stream: Stream, tmp_path: Path) -> None:
    def fail(row: Row) -> None:
        raise ValueError("the job's own")

    rows = sums(stream.read()).coalesce(1)
    said = [failed(rows, lambda writer: writer.foreach(fail), tmp_path / mode, mode) for mode in ("off", "require")]
    assert in_brief(said[0]) == in_brief(said[1])
    assert "ValueError: the job's own" in said[0]


def test_what_a_batch_function_raises_has_the_traceback_of_that_function(stream: Stream, tmp_path: Path) -> None:
    def inner() -> None:
        raise ZeroDivisionError("the job's own")

    def fail(rows: DataFrame, number: int) -> None:
        inner()

    def frames(mode: str) -> list[str]:
        said = failed(sums(stream.read()), lambda writer: writer.foreachBatch(fail), tmp_path / mode, mode)
        assert said.startswith("[FOREACH_BATCH_USER_FUNCTION_ERROR]")
        assert said.count("Traceback") == 1
        return [line for line in said.splitlines() if line.startswith("  File ")]

    assert frames("require") == frames("off")
    assert [frame.rpartition(", in ")[2] for frame in frames("require")[-2:]] == ["fail", "inner"]


def of_ours(spark: SparkSession) -> None:
    raise StateLostError("the state is gone")


def of_java(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    jvm.java.nio.file.Files.size(jvm.java.io.File("/nowhere/at/all").toPath())


def of_java_by_ours(spark: SparkSession) -> None:
    try:
        of_java(spark)
    except Exception as error:
        raise StateLostError("the state is gone") from error


def of_a_bug(spark: SparkSession) -> None:
    raise KeyError("a bug")


SPARKS, JAVAS = "org.apache.spark.SparkException", "java.nio.file.NoSuchFileException"


@pytest.mark.parametrize(
    ("fail", "said", "causes"),
    [
        (of_ours, "StateLostError: the state is gone ", [SPARKS]),
        (of_java, "/nowhere/at/all ", [JAVAS]),
        (of_java_by_ours, "StateLostError: the state is gone ", [SPARKS, JAVAS]),
        (of_a_bug, "pyslash has failed by KeyError: 'a bug'\nTraceback (most recent call last):\n", [SPARKS]),
    ],
)
def test_an_error_begins_with_its_own_words(
    stream: Stream,
    monkeypatch: pytest.MonkeyPatch,
    fail: Callable[[SparkSession], None],
    said: str,
    causes: list[str],
) -> None:
    monkeypatch.setattr(EpochRunner, "__call__", lambda runner, batch, epoch: fail(stream.spark))
    with settings(stream.spark, {"spark.slash.mode": "require"}):
        query = sums(stream.read()).writeStream.format("noop").trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(900)
    assert why(raised.value).startswith(said)
    thrown: Any = query._jsq.exception().get().getCause()
    found = []
    while thrown is not None:
        found.append(str(thrown.getClass().getName()))
        thrown = thrown.getCause()
    assert found == causes
