"""Too many records of a Kafka topic: counts, sums and means are estimated by a sample, with bounds that hold."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from eval.pipelines.topic import create
from examples import shed_clicks
from pyslash.cli import main
from pyslash.inspect.state.diff_plan import REFUSED, SAME
from tests.pipelines.test_kafka import produce as produce_all
from tests.support.fresh_first import SinkError, offsets, settings

RECORDS, GROUPS = 400_000, 1_000
FIRST = 100_000  # records of a first micro-batch, of which nobody knows how long it takes
SCHEMA = "at timestamp, key int, value double, price decimal(8,2)"


def produce(spark: SparkSession, kafka: str, topic: str, first: int, count: int) -> None:
    """Records in the order of their times, a millisecond apart; of some the value is not known."""
    number = F.col("id")
    event = F.struct(
        F.date_format(F.timestamp_millis(F.lit(1_700_000_000_000) + number), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").alias(
            "at"
        ),
        (F.abs(F.xxhash64(number)) % GROUPS).cast("int").alias("key"),
        F.when(number % 10 > 0, F.exp(F.abs(F.xxhash64(number, F.lit(1))) % 300 / 100)).alias("value"),
        ((number % 997) / 10).cast("decimal(8,2)").alias("price"),
    )
    rows = spark.range(first, first + count).select(
        F.to_json(event).cast("binary").alias("value"), (number % 2).cast("int").alias("partition")
    )
    rows.write.format("kafka").option("kafka.bootstrap.servers", kafka).option("topic", topic).save()


def by_key(rows: DataFrame) -> DataFrame:
    """All that can be estimated."""
    parsed = rows.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")
    return (
        parsed.withWatermark("at", "1 hour")
        .groupBy("key")
        .agg(
            F.count("*").alias("count"),
            F.count("value").alias("known"),
            F.sum("value").alias("sum"),
            F.avg("value").alias("mean"),
            F.sum("price").alias("price"),
        )
        .where("count > 0")
    )


def stream(spark: SparkSession, kafka: str, topic: str, **more: str) -> DataFrame:
    """The topic from its beginning."""
    options = {"kafka.bootstrap.servers": kafka, "subscribe": topic, "startingOffsets": "earliest", **more}
    return spark.readStream.format("kafka").options(**options).load()


@pytest.fixture(scope="module")
def topic(spark: SparkSession, kafka: str) -> str:
    """Too many records for a first micro-batch."""
    produce(spark, kafka, "shed", 0, RECORDS)
    return "shed"


def test_a_partition_without_records(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """All that there is now is read, although one partition has nothing."""
    create(kafka, "shed-quiet", partitions=3)
    produce(spark, kafka, "shed-quiet", 0, 1_000)
    found: dict[int, int] = {}
    with settings(spark, mode="require", shed="bounded"):
        writer = by_key(stream(spark, kafka, "shed-quiet")).writeStream.outputMode("update")
        sink = writer.foreachBatch(lambda rows, _: found.update({row["key"]: row["count"] for row in rows.collect()}))
        sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()
    assert sum(found.values()) == 1_000


def truth(spark: SparkSession, kafka: str, topic: str) -> dict[int, Any]:
    """By Spark, of all records."""
    options = {"kafka.bootstrap.servers": kafka, "subscribe": topic}
    return {row["key"]: row for row in by_key(spark.read.format("kafka").options(**options).load()).collect()}


def run(
    rows: DataFrame, folder: Path, output: str = "update", sink_seconds: float = 0, **conf: str
) -> tuple[list[list[Any]], list[dict[str, Any]]]:
    """Its micro-batches and their figures, until nothing is left; the sink takes so long for each, besides."""
    batches: list[list[Any]] = []

    def take(batch: DataFrame, number: int) -> None:
        batches.append(batch.collect())
        time.sleep(sink_seconds)  # the time of the test

    with settings(rows.sparkSession, mode="require", shed="bounded", **conf):
        writer = rows.writeStream.option("checkpointLocation", str(folder)).outputMode(output)
        query = writer.foreachBatch(take).trigger(availableNow=True).start()
        query.awaitTermination()
        return batches, pyslash.progress(query)


def test_the_bounds_hold_the_truth(spark: SparkSession, kafka: str, tmp_path: Path, topic: str) -> None:
    """Of a thousand groups, about 95 of 100 intervals of each aggregate; by chance 93 to 97, nearly always."""
    (rows, *_), (figures, *_) = run(by_key(stream(spark, kafka, topic)), tmp_path / "c")
    assert figures["sample_rate"] == FIRST / RECORDS
    assert figures["rows"] == pytest.approx(FIRST, rel=0.02)
    assert figures["records_fetched"] == RECORDS
    expected, inside = truth(spark, kafka, topic), defaultdict[str, int](int)
    assert {row["key"] for row in rows} == expected.keys()
    for row in rows:
        for name in ("count", "known", "sum", "mean", "price"):
            low, high = row[f"{name}_95"]
            assert low < float(row[name]) + 0.5
            assert float(row[name]) - 0.5 < high
            inside[name] += low <= float(expected[row["key"]][name]) <= high
    assert {name: 925 <= held <= 975 for name, held in inside.items()} == dict.fromkeys(inside, True), inside
    total = sum(row["count"] for row in rows)
    assert total == pytest.approx(RECORDS, rel=4 * math.sqrt((1 - 0.25) / FIRST))
    assert offsets(tmp_path / "c")[0]["rate"] == FIRST / RECORDS


def test_a_micro_batch_that_comes_again_takes_the_same_records(
    spark: SparkSession, kafka: str, tmp_path: Path, topic: str
) -> None:
    """Also by Spark's own reader: a record is in the sample or not by its place."""
    query = by_key(stream(spark, kafka, topic))
    first: list[list[Any]] = []

    def fail(batch: DataFrame, number: int) -> None:
        first.append(sorted(batch.collect()))
        raise SinkError

    with settings(spark, mode="require", shed="bounded"):
        writer = query.writeStream.option("checkpointLocation", str(tmp_path / "c")).outputMode("update")
        with pytest.raises(StreamingQueryException, match="SinkError"):
            writer.foreachBatch(fail).trigger(availableNow=True).start().awaitTermination()
    again, _ = run(query, tmp_path / "c")
    assert sorted(again[0]) == first[0]
    by_spark, (figures, *_) = run(query, tmp_path / "d", ingest_kafka="spark")
    assert figures["records_fetched"] == 0
    assert sorted(by_spark[0]) == first[0]


def test_with_few_records_all_are_taken(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """The rows are Spark's, and the bounds say that they are exact; sampled rows before and behind stay estimates."""
    name = "shed-few"
    produce(spark, kafka, name, 0, 20_000)
    query = by_key(stream(spark, kafka, name))
    (rows, *_), (figures, *_) = run(query, tmp_path / "c")
    assert figures["sample_rate"] == 1.0
    expected = truth(spark, kafka, name)
    for row in rows:
        for column in ("count", "known", "sum", "mean", "price"):
            assert row[column] == expected[row["key"]][column]
            assert row[f"{column}_95"] == pytest.approx([float(row[column])] * 2)
    assert "rate" not in offsets(tmp_path / "c")[0]
    produce(spark, kafka, name, 20_000, 600_000)
    (rows, *_), (figures, *_) = run(query, tmp_path / "c")
    assert figures["sample_rate"] < 1
    expected = truth(spark, kafka, name)
    wide = [row for row in rows if row["count_95"]["low"] < row["count_95"]["high"]]
    assert len(wide) == GROUPS
    held = sum(row["sum_95"]["low"] <= expected[row["key"]]["sum"] <= row["sum_95"]["high"] for row in rows)
    assert 925 <= held <= 975


def test_a_value_that_few_records_have(spark: SparkSession, kafka: str, tmp_path: Path, topic: str) -> None:
    """Where none was taken that has it, others may have had it: the bounds are not the value."""
    parsed = stream(spark, kafka, topic).select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("event"))
    rare = F.when(F.unix_millis("at") % 300 == 0, F.col("key") + 1)
    keyed = parsed.select("event.*").groupBy("key")
    query = keyed.agg(F.count(rare).alias("known"), F.sum(rare).alias("sum"), F.avg(rare).alias("mean"))
    (rows, *_), (figures, *_) = run(query, tmp_path)
    assert figures["sample_rate"] == FIRST / RECORDS
    assert len(rows) == GROUPS
    assert {row[name] for row in rows for name in ("known_95", "sum_95", "mean_95")} == {None}
    without = [row for row in rows if row["known"] == 0]
    assert 0 < len(without) < GROUPS
    assert {(row["sum"], row["mean"]) for row in without} == {(None, None)}
    assert all(row["mean"] == row["key"] + 1 for row in rows if row["known"])


def test_a_slow_sink_is_no_reason_for_samples(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """Its commit takes longer than a micro-batch may, and would with a sample as well."""
    name = "shed-slow"
    produce(spark, kafka, name, 0, 24_000)
    query = by_key(stream(spark, kafka, name, maxOffsetsPerTrigger="3000"))
    _, figures = run(query, tmp_path, sink_seconds=1.3, backlog_latency="1s")
    assert [one["rows"] for one in figures if one["rows"]] == [3_000] * 8
    assert {one["sample_rate"] for one in figures} == {1.0}


def exactly(rows: DataFrame) -> DataFrame:
    """Sums and means that another sum, even of 0, would change: of all digits that a decimal has, and of infinities."""
    parsed = rows.select(F.from_json(F.col("value").cast("string"), "v string, p decimal(28,18)").alias("one"))
    values = parsed.select(F.col("one.v").cast("double").alias("v"), "one.p")
    return values.groupBy(F.isnull("v").alias("key")).agg(
        F.sum("v").alias("sum"), F.avg("v").alias("mean"), F.sum("p").alias("price"), F.avg("p").alias("price_mean")
    )


def test_where_all_records_were_taken_nothing_is_added(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """Neither to the values nor to their bounds."""
    options, tiny = {"kafka.bootstrap.servers": kafka, "subscribe": "shed-exact"}, "0.000000000000000001"
    records = [b'{"v": "Infinity", "p": 1%s}' % tiny[1:].encode(), b'{"v": "2", "p": %s}' % tiny.encode(), b"{}"]
    produce_all(spark, kafka, "shed-exact", records)
    (rows,), _ = run(exactly(stream(spark, kafka, "shed-exact")), tmp_path)
    truth = exactly(spark.read.format("kafka").options(**options).load()).collect()
    names = ("sum", "mean", "price", "price_mean")
    assert {tuple(row[name] for name in ("key", *names)) for row in rows} == {tuple(row) for row in truth}
    for row in rows:
        known = {name: None if row[name] is None else float(row[name]) for name in names}
        assert {name: tuple(row[f"{name}_95"]) for name in names} == {name: (known[name],) * 2 for name in names}


def test_the_job_is_compared_with_its_state_as_it_starts(
    spark: SparkSession, kafka: str, tmp_path: Path, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Estimates and all."""
    run(by_key(stream(spark, kafka, topic)), tmp_path / "c")
    job = tmp_path / "job.py"
    job.write_text(
        "from pyspark.sql import SparkSession\n"
        "from tests.pipelines.test_shedding import by_key, stream\n"
        f"rows = by_key(stream(SparkSession.builder.getOrCreate(), {kafka!r}, {topic!r}))\n"
        "rows.writeStream.format('noop').start(outputMode='update')\n"
    )
    with settings(spark, shed="bounded"):
        assert main(["state", "diff-plan", str(tmp_path / "c"), str(job)]) == SAME, capsys.readouterr().out
        assert main(["explain", str(job)]) == 0
        text = capsys.readouterr().out
        assert "_slash_weight" in text, text
    assert main(["state", "diff-plan", str(tmp_path / "c"), str(job)]) == REFUSED


def test_windows_that_overlap(spark: SparkSession, kafka: str, tmp_path: Path, topic: str) -> None:
    """A record is in several groups, and stands for as many in each; so it is in each grouping of a cube."""
    for number, groups in enumerate([[F.window("at", "2 minutes", "1 minute")], [F.col("key") % 3]]):

        def query(rows: DataFrame, groups: list[Any] = groups, number: int = number) -> DataFrame:
            parsed = rows.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")
            timed = parsed.withWatermark("at", "1 hour")
            grouped = timed.cube(*groups) if number else timed.groupBy(*groups)
            return grouped.agg(F.count("*").alias("count"), F.sum("value").alias("sum"))

        (rows, *_), (figures, *_) = run(query(stream(spark, kafka, topic)), tmp_path / str(number))
        assert figures["sample_rate"] < 1
        options = {"kafka.bootstrap.servers": kafka, "subscribe": topic}
        truth = {row[0]: row for row in query(spark.read.format("kafka").options(**options).load()).collect()}
        assert {row[0] for row in rows} == truth.keys()
        for row in rows:
            off = (row["count_95"]["high"] - row["count_95"]["low"]) / 2
            assert 0 < off < 0.05 * row["count"]
            assert abs(row["count"] - truth[row[0]]["count"]) < 2.5 * off, "five standard errors"
            off = (row["sum_95"]["high"] - row["sum_95"]["low"]) / 2
            assert abs(row["sum"] - truth[row[0]]["sum"]) < 2.5 * off


def test_what_a_sample_says_nothing_of(
    spark: SparkSession, kafka: str, tmp_path: Path, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All records are taken, and the log says why."""
    parsed = stream(spark, kafka, topic).select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("event"))
    events = parsed.select("event.*").withWatermark("at", "1 hour")
    refused = {
        "max of a sample says nothing of the rest": events.groupBy("key").agg(F.max("value").alias("most")),
        "computes with aggregates in their own list": events.groupBy("key").agg((F.sum("value") / 2).alias("half")),
        "without Deduplicate": events.dropDuplicates(["key"]),
        "is another session": events.groupBy(F.session_window("at", "1 second"), "key").count(),
    }
    for number, (why, query) in enumerate(refused.items()):
        output = "append" if "session" in why else "update"
        _, figures = run(query, tmp_path / str(number), output)
        assert why in caplog.text
        assert sum(one["rows"] for one in figures) == RECORDS
        assert {one["sample_rate"] for one in figures} == {1.0}


def test_one_way_to_keep_up_is_chosen(spark: SparkSession, kafka: str, tmp_path: Path, topic: str) -> None:
    """Neither is guessed."""
    with pytest.raises(Exception, match="choose one of them"):
        run(by_key(stream(spark, kafka, topic)), tmp_path / "c", backlog="fresh-first")


def test_the_example(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """It knows of no samples, and its rows have bounds."""
    clicks, name = 300_000, "shed-clicks"
    at = F.date_format(F.timestamp_millis(F.lit(1_700_000_000_000) + F.col("id")), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
    page = F.concat(F.lit("/"), (F.col("id") % 3).cast("string"))
    click = F.struct(at.alias("at"), page.alias("page"), (F.col("id") % 50).cast("double").alias("milliseconds"))
    records = spark.range(clicks).select(F.to_json(click).cast("binary").alias("value"))
    records.write.format("kafka").option("kafka.bootstrap.servers", kafka).option("topic", name).save()
    arguments = ["--servers", kafka, "--topic", name, "--rows", str(tmp_path / "rows"), "--available-now"]
    with settings(spark, mode="require", shed="bounded"):
        query = shed_clicks.start(spark, shed_clicks.parse([*arguments, "--checkpoint", str(tmp_path / "checkpoint")]))
        query.awaitTermination()
        assert pyslash.progress(query)[0]["sample_rate"] < 1
    found = spark.read.json(str(tmp_path / "rows")).collect()
    assert len(found) == 3 * 5  # minutes that are over
    for row in found:
        assert row["clicks_95"]["low"] < row["clicks"] < row["clicks_95"]["high"]
        assert row["load_ms_95"]["low"] < row["load_ms"] < row["load_ms_95"]["high"]
    assert sum(row["clicks"] for row in found) == pytest.approx(clicks * 280 / 300, rel=0.1)


def test_few_samples_among_many_records_tell_no_bounds(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """Records of a micro-batch that was taken whole say nothing of how the others vary."""
    name = "shed-mixed"
    create(kafka, name, partitions=1)

    def send(count: int, key: Column) -> None:
        value = F.to_json(F.struct(key.cast("int").alias("key"), F.lit(1.0).alias("value"))).cast("binary")
        writer = spark.range(count).select(value.alias("value")).write.format("kafka")
        writer.option("kafka.bootstrap.servers", kafka).option("topic", name).save()

    send(60_000, F.col("id") % GROUPS)  # 60 of each key, all of which are taken
    parsed = stream(spark, kafka, name).select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("event"))
    query = parsed.select("event.*").groupBy("key").agg(F.count("*").alias("count"), F.sum("value").alias("sum"))
    (rows, *_), _ = run(query, tmp_path)
    assert all(row["count_95"] is not None for row in rows)
    is_old = (F.col("id") % 31 == 0).cast("int")  # 20 of each old key: few of them are taken
    send(620_000, is_old * ((F.col("id") / 31).cast("int") % GROUPS) + (1 - is_old) * GROUPS)
    (rows, *_), (figures, *_) = run(query, tmp_path)
    assert figures["sample_rate"] < 0.35
    old = [row for row in rows if row["key"] < GROUPS]
    assert len(old) > GROUPS / 2
    assert {row[f"{one}_95"] for row in old for one in ("count", "sum")} == {None}


def test_a_view_is_what_it_stands_for(spark: SparkSession, kafka: str, tmp_path: Path, topic: str) -> None:
    parsed = stream(spark, kafka, topic).select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("event"))
    parsed.select("event.*").createOrReplaceTempView("shed_events")
    query = spark.sql("SELECT key, count(*) AS count FROM shed_events GROUP BY key")
    (rows, *_), (figures, *_) = run(query, tmp_path)
    assert figures["sample_rate"] == FIRST / RECORDS
    assert {*rows[0].asDict()} == {"key", "count", "count_95"}
