"""Spark's settings: the table has each of them, and a query under them does what plain Spark does, or stays there."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.driver.coverage_check import Checkpoint
from pyslash.errors import UnsupportedQueryError
from pyslash.plan.catalyst import elements
from pyslash.plan.reasons import Uncovered
from pyslash.spark.session import changed
from pyslash.spark.spark_settings import ASYNC_PROGRESS, Meaning, all_settings, check_settings, page
from tests.support.attempt import BATCHES, Attempt, add, attempt, make_stream, settings
from tests.support.nightly import some_at_night
from tests.support.stream import Stream

ROOT = Path(__file__).resolve().parents[2]
STATE = "spark.sql.streaming.stateStore."
ROCKSDB = {STATE + "providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
# Of what concerns streams: declarative pipelines start queries of their own.
CONCERNS = re.compile(r"streaming|stateStore|sessionWindow|dropDuplicates", re.IGNORECASE)
NOT = re.compile(r"spark\.sql\.pipelines\.")
GONE = {"spark.sql.streaming.join.stateFormatV4.enabled"}  # of 4.2 alone
LAST = [(1300, "a", 1)]


def of_spark(spark: SparkSession) -> set[str]:
    jvm: Any = spark._jvm
    entries = getattr(getattr(jvm.org.apache.spark.sql.internal, "SQLConf$"), "MODULE$").getConfigEntries()
    names = {str(entry.key()) for entry in elements(jvm.java.util.ArrayList(entries))}
    return {name for name in names if CONCERNS.search(name) and not NOT.search(name)}


def test_the_table_has_every_setting_of_spark_and_no_other(spark: SparkSession) -> None:
    listed = [name for one in all_settings() for name in one.full_names if name.startswith("spark.")]
    assert len(listed) == len(set(listed)), "a setting is there twice"
    families = tuple(name[:-1] for name in listed if name.endswith("*"))
    known = of_spark(spark)
    assert len(known) > 60
    unknown = {name for name in known - set(listed) if not name.startswith(families)}
    assert unknown == set(), "say in pyslash/spark/spark_settings.py what these mean for a query on pyslash"
    if spark.version.startswith("4.3."):  # the newest: earlier ones lack some
        exist = known | {name for name in listed if name.endswith("*") or not CONCERNS.search(name)}
        assert set(listed) - exist - GONE == set(), "this Spark has these no more"


def test_the_page_is_that_of_the_table() -> None:
    assert (ROOT / "docs" / "settings.md").read_text() == page(), "pyslash coverage --settings > docs/settings.md"


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return make_stream(spark, tmp_path, BATCHES[:2])


def summed(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v").alias("s"))


def sums(stream: Stream) -> DataFrame:
    return summed(stream.read())


def distinct(stream: Stream) -> DataFrame:
    return stream.read().dropDuplicates(["k", "ts"])


def chained(stream: Stream) -> DataFrame:
    return sums(stream).groupBy(F.window("window", "20 seconds")).agg(F.sum("s").alias("s"))


def joined(stream: Stream) -> DataFrame:
    near = F.expr("l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 20 SECONDS")
    pairs = stream.read().alias("l").join(stream.read().alias("r"), near, "left")
    return pairs.selectExpr("l.ts", "l.k", "l.v", "r.v AS other")


def of_two_watermarks(stream: Stream) -> DataFrame:
    """Unites the stream with itself, 35 seconds later."""
    return summed(stream.read().union(replace(stream, delay_seconds=45).read()))


def started_twice(
    stream: Stream, query: Callable[[Stream], DataFrame], values: dict[str, str], output: str = "append"
) -> dict[str, list[Attempt]]:
    """On plain Spark and in mode `auto`: two starts on one checkpoint, with more rows before the second."""

    def start() -> list[Attempt]:
        return [attempt(query(stream), stream.folder / mode, mode, output=output) for mode in ("off", "auto")]

    with changed(stream.spark, values):
        first = start()
        for rows in (*BATCHES[2:], LAST):
            add(stream, rows)
        second = start()
    return {"off": [first[0], second[0]], "auto": [first[1], second[1]]}


def assert_as_spark(attempts: dict[str, list[Attempt]], on_pyslash: bool) -> None:
    for expected, found in zip(attempts["off"], attempts["auto"], strict=True):
        assert expected.error is None
        assert found.error is None
        assert found.batches == expected.batches != []
        assert found.watermarks == expected.watermarks
        assert found.ran_on_pyslash == on_pyslash


LEFT: list[dict[str, str]] = [
    ROCKSDB | {STATE + "checkpointFormatVersion": "2"},
    {"spark.sql.streaming.offsetLog.formatVersion": "2"},
]


def skip_unless_known(spark: SparkSession, values: dict[str, str]) -> None:
    if not set(values) <= of_spark(spark):
        pytest.skip(f"Spark {spark.version} has no setting {', '.join(set(values) - of_spark(spark))}")


@pytest.mark.parametrize("values", some_at_night(LEFT, LEFT[1:]), ids=lambda values: list(values)[-1])
def test_what_only_spark_knows_leaves_the_query_there_from_its_start(
    stream: Stream, tmp_path: Path, caplog: pytest.LogCaptureFixture, values: dict[str, str]
) -> None:
    skip_unless_known(stream.spark, values)
    with caplog.at_level(logging.WARNING, "pyslash"):
        attempts = started_twice(stream, sums, values)
    assert_as_spark(attempts, on_pyslash=False)
    name, value = list(values.items())[-1]
    said = f"stays on plain Spark: {name} is {value}, which pyslash leaves to Spark"
    assert [said in record.getMessage() for record in caplog.records] == [True, True]
    assert not Checkpoint(stream.spark, str(tmp_path / "auto")).is_ours
    assert not (tmp_path / "auto" / "slash").exists()


def test_each_that_is_left_to_spark_has_such_a_value_and_its_default_is_none() -> None:
    left = [name for one in all_settings() if one.meaning is Meaning.LEFT for name in one.full_names]
    assert len(left) > 5
    for name in (one for one in left if one.startswith("spark.")):
        default, other = ("1", "2") if name.endswith("Version") else ("false", "TRUE")
        check_settings({name: default}.get)
        with pytest.raises(Uncovered, match=re.escape(f"{name} is {other}")):
            check_settings({name: other}.get)


def test_such_a_setting_is_refused_where_pyslash_must_run_the_query(stream: Stream, tmp_path: Path) -> None:
    assert attempt(sums(stream), tmp_path / "c").ran_on_pyslash
    add(stream, LAST)
    said = r"checkpointFormatVersion is 2, which pyslash leaves to Spark"
    with changed(stream.spark, LEFT[0]):
        for mode, words in (("auto", r"the state of this query in .* is pyslash's"), ("require", "does not cover")):
            with pytest.raises(UnsupportedQueryError, match=f"{words}.*{said}"):
                attempt(sums(stream), tmp_path / "c", mode)
    assert attempt(sums(stream), tmp_path / "c").error is None


KEPT: list[tuple[dict[str, str], Callable[[Stream], DataFrame]]] = [
    ({"spark.sql.streaming.statefulOperator.allowMultiple": "false"}, sums),
    ({"spark.sql.streaming.multipleWatermarkPolicy": "max"}, of_two_watermarks),
    ({"spark.sql.streaming.noDataMicroBatches.enabled": "false"}, chained),
    ({"spark.sql.streaming.statefulOperator.allowMultiple": "false"}, distinct),
    ({"spark.sql.streaming.statefulOperator.allowMultiple": "false"}, joined),
    ({"spark.sql.streaming.multipleWatermarkPolicy": "min"}, of_two_watermarks),
    (ROCKSDB, chained),
    (ROCKSDB | {STATE + "rowChecksum.enabled": "true"}, sums),
    (ROCKSDB | {"spark.sql.streaming.join.stateFormatVersion": "3"}, joined),
    (ROCKSDB | {"spark.sql.streaming.join.stateFormatVersion": "4"}, joined),
    ({"spark.sql.streaming.aggregation.stateFormatVersion": "1"}, chained),
    ({"spark.sql.streaming.statefulOperator.useStrictDistribution": "false"}, chained),
    ({"spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled": "false"}, joined),
    ({"spark.sql.streaming.statefulOperator.incrementalCleanupFactor": "2"}, sums),
    ({"spark.sql.dropDuplicates.deterministicKeyOrder.enabled": "false"}, distinct),
    ({STATE + "unloadOnCommit": "true"}, sums),
    ({STATE + "skipNullsForStreamStreamJoins.enabled": "true"}, joined),
    ({"spark.sql.streaming.checkpoint.renamedFileCheck.enabled": "true"}, sums),
    ({"spark.sql.streaming.minBatchesToRetain": "1"}, sums),
    ({"spark.sql.streaming.asyncLogPurge.enabled": "false"}, sums),
]


@pytest.mark.parametrize(
    ("values", "query"),
    [
        pytest.param(
            *case,
            marks=[pytest.mark.nightly] if place > 1 else [],
            id=f"{','.join(name.rpartition('streaming.')[2] for name in list(case[0])[-1:])}-{case[1].__name__}",
        )
        for place, case in enumerate(KEPT)
    ],
)
def test_what_is_honoured_or_has_no_meaning(
    stream: Stream, values: dict[str, str], query: Callable[[Stream], DataFrame]
) -> None:
    skip_unless_known(stream.spark, values)
    assert_as_spark(started_twice(stream, query, values), on_pyslash=True)


@pytest.mark.parametrize(
    ("values", "query", "words"),
    [
        (ROCKSDB | {STATE + "encodingFormat": "avro"}, sums, "encoding format as avro is not supported"),
        ({"spark.sql.streaming.join.stateFormatVersion": "1"}, joined, "with state format version 1"),
    ],
    ids=["encodingFormat", "join.stateFormatVersion"],
)
def test_what_spark_refuses_is_refused(
    stream: Stream, values: dict[str, str], query: Callable[[Stream], DataFrame], words: str
) -> None:
    """As it starts, or in its first micro-batch."""
    skip_unless_known(stream.spark, values)
    for mode in ("off", "auto"):
        with changed(stream.spark, values), pytest.raises(PySparkException, match=words):
            raise attempt(query(stream), stream.folder / mode, mode).error or AssertionError(mode)


# Options of a writer.


@pytest.mark.parametrize("name", [ASYNC_PROGRESS, ASYNC_PROGRESS.lower()])
def test_an_option_keeps_its_case(stream: Stream, tmp_path: Path, name: str) -> None:
    """Spark refuses asynchronous progress for a query with state, and finds that option in its own spelling alone."""

    def run(mode: str) -> str:
        with settings(stream.spark, {"spark.slash.mode": mode}):
            writer = sums(stream).writeStream.option("CheckpointLOCATION", str(tmp_path / mode)).format("noop")
            try:
                query = writer.option(name, "true").start()
                try:
                    query.processAllAvailable()
                finally:
                    query.stop()
            except PySparkException as error:
                return re.sub(r"\b[0-9a-f-]{36}\b", "", str(error).partition("\n")[0])
        assert (tmp_path / mode / "commits").exists()
        return "done"

    refused = run("off")
    assert (refused == "done") == (name != ASYNC_PROGRESS)
    assert run("require") == run("auto") == refused
