"""The hook: which queries it takes over, and what stays Spark's."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

import pyslash
from pyslash.driver.start import hook
from pyslash.errors import ConfigError, InvalidInputError, UnsupportedQueryError
from pyslash.spark.session import changed
from tests.driver.plugin_job import Started
from tests.support.stream import Stream, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])


def window() -> Column:
    return F.window("ts", "10 seconds")


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    made = Stream(spark, tmp_path, SCHEMA, delay_seconds=0)
    for batch in range(3):
        times = [seconds(1000 + 10 * batch + i % 10) for i in range(20)]
        made.add(pa.table({"ts": times, "k": [i % 3 for i in range(20)], "v": list(range(20))}, SCHEMA))
    made.add(pa.table({"ts": [seconds(5000)], "k": [0], "v": [0]}, SCHEMA))
    return made


@pytest.fixture
def enabled(spark: SparkSession) -> Iterator[None]:
    pyslash.enable(spark)
    yield
    pyslash.disable()
    for query in spark.streams.active:
        query.stop()


def counts(stream: Stream) -> DataFrame:
    return stream.read().groupBy(window(), "k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))


def expected(stream: Stream) -> list[tuple[object, ...]]:
    rows = stream.expected(window(), [F.col("k")], [F.count("*"), F.sum("v")])
    return sorted((row[0].start, *row[1:]) for row in rows)


def finish(query: StreamingQuery) -> StreamingQuery:
    assert query.awaitTermination(900)
    return query


@pytest.mark.usefixtures("enabled")
def test_two_queries_at_once(stream: Stream) -> None:
    results: dict[str, list[tuple[object, ...]]] = {"a": [], "b": []}

    def collect(name: str) -> StreamingQuery:
        return (
            counts(stream)
            .writeStream.queryName(name)
            .foreachBatch(lambda rows, _: results[name].extend((r[0].start, *r[1:]) for r in rows.collect()))
            .trigger(availableNow=True)
            .start()
        )

    queries = [collect("a"), collect("b")]
    for query in queries:
        finish(query)
        assert query.name in results
    assert sorted(results["a"]) == sorted(results["b"]) == expected(stream)


def test_a_function_that_the_writer_had_before_is_a_sink_too(stream: Stream, request: pytest.FixtureRequest) -> None:
    seen: list[int] = []
    writer = counts(stream).writeStream.foreachBatch(lambda rows, epoch: seen.append(epoch)).trigger(availableNow=True)
    request.getfixturevalue("enabled")
    query = finish(writer.start())
    assert [epoch["epoch"] for epoch in pyslash.progress(query)] == seen != []


@pytest.mark.usefixtures("enabled")
def test_a_listener_may_start_a_query_and_settings_are_what_they_were(stream: Stream) -> None:
    spark = stream.spark

    def start(name: str) -> StreamingQuery:
        return counts(stream).writeStream.queryName(name).format("noop").trigger(once=True).start()

    first: list[StreamingQuery] = []
    second: list[StreamingQuery] = []
    listener = Started()
    listener.once = lambda: second.append(start("second"))
    spark.streams.addListener(listener)
    try:
        starting = threading.Thread(target=lambda: first.append(start("first")), daemon=True)
        starting.start()
        starting.join(60)
        for query in [*first, *second]:
            finish(query)
            assert pyslash.progress(query)
    finally:
        spark.streams.removeListener(listener)
    assert [query.name for query in [*first, *second]] == ["first", "second"]
    assert not spark._jsparkSession.sessionState().conf().contains(hook._SCHEMA_CHECK)


def test_what_cannot_be_asked_keeps_no_other_query(monkeypatch: pytest.MonkeyPatch) -> None:
    class OfAJvmThatIsGone:
        @property
        def isActive(self) -> bool:
            raise ConnectionError("no JVM")

    ended: list[bool] = []
    runner = SimpleNamespace(
        ending=threading.Lock(), is_running=False, progress=None, end=lambda resumable: ended.append(resumable)
    )
    runners = {"gone": (OfAJvmThatIsGone(), runner, False), "ended": (SimpleNamespace(isActive=False), runner, True)}
    monkeypatch.setattr(hook, "_runners", runners)
    with pytest.raises(ConnectionError):
        hook._sweep()
    assert ended == [False]
    assert [*runners] == ["gone"]


@pytest.mark.usefixtures("enabled")
def test_processing_time_trigger_and_stop(stream: Stream) -> None:
    seen: list[int] = []
    query = (
        counts(stream)
        .writeStream.foreachBatch(lambda rows, epoch: seen.append(epoch))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    query.processAllAvailable()
    assert query.isActive
    query.stop()
    assert seen == [0, 1, 2, 3, 4]  # the last one without input, as the watermark has moved
    assert [figures["epoch"] for figures in pyslash.progress(query)] == seen


@pytest.mark.usefixtures("enabled")
def test_uncovered_query_runs_on_spark_with_its_reason(stream: Stream, caplog: pytest.LogCaptureFixture) -> None:
    df = stream.read().groupBy(F.session_window("ts", "10 seconds"), "k").agg(F.collect_list("v"))
    with caplog.at_level(logging.WARNING, "pyslash"):
        query = finish(df.writeStream.format("noop").trigger(availableNow=True).start())
    assert pyslash.progress(query) == []
    assert "stays on plain Spark" in caplog.text
    assert "collect_list" in caplog.text


@pytest.mark.usefixtures("enabled")
def test_a_limit_stays_sparks(stream: Stream) -> None:
    few = stream.read().limit(3)
    assert pyslash.progress(finish(few.writeStream.format("noop").trigger(availableNow=True).start())) == []


@pytest.mark.usefixtures("enabled")
def test_require_refuses_with_the_reason(stream: Stream) -> None:
    stream.spark.conf.set("spark.slash.mode", "require")
    try:
        with pytest.raises(UnsupportedQueryError, match="limits"):
            stream.read().limit(3).writeStream.format("noop").start()
    finally:
        stream.spark.conf.unset("spark.slash.mode")


@pytest.mark.usefixtures("enabled")
def test_off_and_bad_values(stream: Stream) -> None:
    try:
        for off in ("off", "Off"):
            stream.spark.conf.set("spark.slash.mode", off)
            query = counts(stream).writeStream.format("noop").trigger(once=True).start()
            assert pyslash.progress(finish(query)) == []
        stream.spark.conf.set("spark.slash.mode", "sometimes")
        with pytest.raises(ConfigError, match=r"spark\.slash\.mode"):
            counts(stream).writeStream.format("noop").start()
    finally:
        stream.spark.conf.unset("spark.slash.mode")


@pytest.mark.usefixtures("enabled")
def test_a_failing_sink_replays_the_epoch_with_the_same_rows(stream: Stream) -> None:
    attempts: dict[int, list[list[tuple[object, ...]]]] = {}

    def fail_once(rows: DataFrame, epoch: int) -> None:
        attempts.setdefault(epoch, []).append(sorted((r[0].start, *r[1:]) for r in rows.collect()))
        if epoch == 2 and len(attempts[epoch]) == 1:
            raise RuntimeError("the sink is out of order")

    def start() -> StreamingQuery:
        return (
            counts(stream)
            .writeStream.option("checkpointLocation", str(stream.folder / "checkpoint"))
            .foreachBatch(fail_once)
            .trigger(availableNow=True)
            .start()
        )

    with pytest.raises(StreamingQueryException, match="out of order"):
        start().awaitTermination(900)
    again = finish(start())
    assert attempts[2][0] == attempts[2][1] != []
    assert [figures["replayed"] for figures in pyslash.progress(again)] == [True, False, False]
    rows = [row for tries in attempts.values() for row in tries[-1]]
    assert sorted(rows) == expected(stream)


def test_explain(stream: Stream, capsys: pytest.CaptureFixture[str]) -> None:
    text = pyslash.explain(counts(stream))
    assert text.startswith("pyslash: covered")
    assert "0:00:10" in text
    assert capsys.readouterr().out.strip() == text
    assert "no stateful operator" in pyslash.explain(stream.read())


def test_an_explanation_is_shown_once(stream: Stream) -> None:
    """Where a prompt or a notebook shows the value of a line, the text has been printed already."""
    text = pyslash.explain(counts(stream), "Append")
    assert (repr(text), hasattr(text, "_ipython_display_")) == ("<pyslash: covered>", True)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (
            lambda df: (df, "apend"),
            InvalidInputError,
            r"'apend', which is none of append, update, complete; did you mean 'append'\?",
        ),
        (lambda df: (df, "all"), InvalidInputError, r"'all', which is none of append, update, complete$"),
        (lambda df: ("x",), TypeError, r"takes a streaming DataFrame, not 'x'"),
        (lambda df: (df.groupBy("k"),), TypeError, r"takes a streaming DataFrame, not GroupedData"),
    ],
)
def test_explain_says_what_it_takes(
    stream: Stream, arguments: Callable[[DataFrame], tuple[Any, ...]], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        pyslash.explain(*arguments(stream.read()))


def static(rows: DataFrame) -> DataFrame:
    """A table to join with, small enough to be broadcast."""
    return rows.sparkSession.range(3).withColumnRenamed("id", "k")


@pytest.mark.parametrize(
    ("conf", "input_of", "said"),
    [
        ({}, lambda rows: rows, "ingest      files: Parquet is read natively where a micro-batch has"),
        ({"ingest": "files"}, lambda rows: rows.where("k > 1 + 1"), "ingest      files: Parquet is read natively\n"),
        ({}, lambda rows: rows.where("length(string(k)) > 1"), "ingest      rows: Spark reads the input: it filters"),
        ({}, lambda rows: rows.withColumn("k", F.col("k") + 1), "ingest      rows: Spark reads the input: it computes"),
        ({}, lambda rows: static(rows).join(rows, "k"), "ingest      files: Parquet is read natively where"),
        ({}, lambda rows: rows.join(static(rows), "k", "left"), "ingest      files: Parquet is read natively where"),
        ({}, lambda rows: rows.join(static(rows), "k", "left_semi"), "Spark reads the input: it is a LEFT SEMI join"),
        ({}, lambda rows: rows.where("k IN (SELECT id FROM range(3)) OR v > 3"), "it asks whether a table has a row"),
        ({"ingest": "rows"}, lambda rows: rows, "ingest      rows: spark.slash.ingest=rows"),
        ({}, lambda rows: rows, "emit        columns"),
        ({"transport": "tcp"}, lambda rows: rows, "emit        columns: merged by executors; all is brought by"),
    ],
)
def test_explain_tells_the_ways_in_and_out(
    stream: Stream, conf: dict[str, str], input_of: Callable[[DataFrame], DataFrame], said: str
) -> None:
    for name, value in conf.items():
        stream.spark.conf.set(f"spark.slash.{name}", value)
    try:
        query = input_of(stream.read()).groupBy(window(), "k").count()
        assert said in pyslash.explain(query)
    finally:
        for name in conf:
            stream.spark.conf.unset(f"spark.slash.{name}")


FIELDS = "ts timestamp, k long, v long"


@pytest.mark.parametrize(
    ("source", "conf", "said"),
    [
        ("json", {}, "native code parses files of json"),
        ("json", {"ingest.json": "spark"}, "Spark parses files of json: spark.slash.ingest.json=spark"),
        ("json dateFormat", {}, "Spark parses files of json: the JSON source has the option dateFormat"),
        ("csv", {}, "native code parses files of csv"),
        ("csv", {"ingest.csv": "spark"}, "Spark parses files of csv: spark.slash.ingest.csv=spark"),
        ("text", {}, "Spark reads the input: its source is text; native code parses from_json"),
        (
            "text dateFormat",
            {"ingest.csv": "spark"},
            "Spark reads the input: its source is text; Spark parses from_json: from_json has the option dateFormat",
        ),
        ("orc", {}, "Spark reads the input: its source is orc"),
        ("rate", {}, "Spark reads the input: its source is rate"),
    ],
)
def test_explain_tells_who_reads_the_records_as_an_epoch_will(
    spark: SparkSession, tmp_path: Path, source: str, conf: dict[str, str], said: str
) -> None:
    kind, _, option = source.partition(" ")
    options = {option: "yyyy"} if option else {}
    reader = spark.readStream.format(kind)
    if kind == "rate":
        rows = reader.load().selectExpr("timestamp AS ts", "value AS k", "value AS v")
    elif kind == "text":
        rows = reader.load(str(tmp_path)).select(F.from_json("value", FIELDS, options).alias("row")).select("row.*")
    else:
        rows = reader.schema(FIELDS).options(**options).load(str(tmp_path))
    with changed(spark, {f"spark.slash.{name}": value for name, value in conf.items()}):
        text = pyslash.explain(rows.withWatermark("ts", "1 second").groupBy(window(), "k").count())
    assert f"  ingest      rows: {said}\n" in text


def test_explain_tells_of_a_union_what_reads_each_source(spark: SparkSession, stream: Stream, tmp_path: Path) -> None:
    other = spark.readStream.schema(FIELDS).json(str(tmp_path)).withWatermark("ts", "1 second")
    text = pyslash.explain(stream.read().select("ts", "k", "v").union(other).groupBy(window(), "k").count())
    said = "Spark reads the input: its source is parquet; native code parses files of json"
    assert f"  ingest      rows: {said}\n" in text


@pytest.mark.usefixtures("enabled")
@pytest.mark.parametrize("watched", [False, True])
def test_a_window_of_the_current_time_is_what_explain_says(stream: Stream, watched: bool) -> None:
    """Spark's scan of a micro-batch folds it: all rows are in one window, and no plan has a window of a column."""
    schema = stream.spark.read.parquet(str(stream.folder / "in")).schema
    files = stream.spark.readStream.schema(schema).parquet(str(stream.folder / "in"))
    rows = files.withColumn("now", F.current_timestamp())
    counted = (rows.withWatermark("now", "1 second") if watched else rows).groupBy(F.window("now", "10 seconds"), "k")
    assert pyslash.explain(counted.count(), "update").startswith("pyslash: covered")
    writer = counted.count().writeStream.outputMode("update").format("noop").trigger(availableNow=True)
    assert pyslash.progress(finish(writer.start())) != []


@pytest.mark.usefixtures("enabled")
def test_queries_that_have_ended_leave_no_thread_of_py4j(stream: Stream) -> None:
    def run() -> None:
        finish(counts(stream).writeStream.format("noop").trigger(once=True).start())
        hook._sweep()

    run()
    before = threading.active_count()
    for _ in range(8):
        run()
    deadline = time.monotonic() + 30
    while threading.active_count() > before + 3 and time.monotonic() < deadline:
        time.sleep(0.1)  # polling the ends of threads, up to the deadline
    assert threading.active_count() <= before + 3
