"""Behind a backlog of a Kafka topic the newest records come first; in the end the rows are plain Spark's."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from eval.pipelines.job import ROOT, Job
from eval.pipelines.topic import create
from pyslash.errors import InvalidInputError
from pyslash.migrate.export import export
from tests.pipelines.test_kafka import produce
from tests.support.fresh_first import (
    SCHEMA,
    START,
    Given,
    by_key,
    offsets,
    records,
    run,
    run_until,
    settings,
)

RECORDS = 8_000
MOST = 1_000  # of a micro-batch
ARRIVALS = 4


def source(spark: SparkSession, kafka: str, topic: str, most: int = MOST) -> DataFrame:
    """The topic, in micro-batches of so many records at most."""
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(most)}
    return spark.readStream.format("kafka").options(**{"kafka.bootstrap.servers": kafka}, **options).load()


def events(rows: DataFrame) -> DataFrame:
    """Those of a topic."""
    return rows.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")


def grow(spark: SparkSession, kafka: str, topic: str, added: list[bytes]) -> None:
    """A third partition, with these records."""
    from confluent_kafka.admin import AdminClient, NewPartitions

    client = AdminClient({"bootstrap.servers": kafka})  # which must live until it is answered
    client.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    frame = spark.createDataFrame([(bytearray(one), 2) for one in added], "value binary, partition int").coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", kafka).option("topic", topic).save()


def in_one_batch(spark: SparkSession, kafka: str, topic: str) -> dict[object, object]:
    """The row of each group, by Spark's batch over the whole topic."""
    options = {"kafka.bootstrap.servers": kafka, "subscribe": topic}
    rows = by_key(events(spark.read.format("kafka").options(**options).load())).collect()
    return {(row["window"]["start"], row["key"]): row[1:5] for row in rows}


@pytest.mark.parametrize("mode", ["update", pytest.param("complete", marks=pytest.mark.nightly), "append"])
def test_the_rows_are_sparks_once_all_is_read(spark: SparkSession, kafka: str, tmp_path: Path, mode: str) -> None:
    """The newest come first, the watermark waits, and plain Spark could go on from the offsets."""
    topic = f"fresh-{mode}"
    rows = by_key(events(source(spark, kafka, topic)))
    plain, ours = Given(), Given()
    produce(spark, kafka, topic, records(0, RECORDS))
    run(rows, tmp_path / "plain", mode, plain, mode="off")
    run(rows, tmp_path / "ours", mode, ours, mode="require", backlog="fresh-first")
    assert ours.last == plain.last
    assert len(ours.last) > 50
    debts = [one["debt"] for one in ours.progress]
    assert debts[0] == RECORDS - MOST
    assert debts == sorted(debts, reverse=True)
    assert debts[-1] == 0
    assert all(one["records_fetched"] or not one["rows"] for one in ours.progress), "past Spark's reader, as in order"
    assert "debt" in offsets(tmp_path / "ours")[0]
    assert offsets(tmp_path / "ours")[-1] == offsets(tmp_path / "plain")[-1]
    watermarks = [one["watermark_us"] for one in ours.progress]
    assert watermarks == sorted(watermarks)
    if mode == "append":  # windows are given as their debt is paid, each once, by Spark's watermarks
        assert sum(len(batch) for batch in ours.batches) == len(ours.last)
        assert ours.watermarks[-1] == plain.watermarks[-1]
    else:
        newest = max(start for start, _ in plain.last)
        assert newest in {row["window"]["start"] for row in ours.batches[0]}


def test_sessions_are_whole(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """A session that begins among the records that are skipped, and ends among those that are read, is one."""
    topic = "fresh-sessions"
    timed = events(source(spark, kafka, topic)).where("value % 300 < 200").withWatermark("at", "1 second")
    keyed = timed.groupBy(F.session_window("at", "500 milliseconds"), F.col("value") % 2)
    rows = keyed.agg(F.count("*"), F.sum("value"))
    plain, ours = Given(), Given()
    produce(spark, kafka, topic, records(0, RECORDS))
    run(rows, tmp_path / "plain", "append", plain, mode="off")
    run(rows, tmp_path / "ours", "append", ours, mode="require", backlog="fresh-first")
    found, expected = (sorted(row for batch in given.batches for row in batch) for given in (ours, plain))
    assert found == expected
    assert len(found) > 20
    assert ours.progress[0]["debt"] == RECORDS - MOST


def test_what_arrives_meanwhile_comes_in_between(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """Newer records in every other micro-batch, while those that were skipped are read; and rows say what they are."""
    topic = "fresh-arrivals"
    rows = by_key(events(source(spark, kafka, topic)))
    plain, ours = Given(), Given()
    produce(spark, kafka, topic, records(0, RECORDS))
    with settings(spark, mode="require", backlog="fresh-first", backlog_columns="on"):

        def keep(batch: DataFrame, number: int) -> None:
            ours.batches.append(batch.collect())
            if number < ARRIVALS:
                produce(spark, kafka, topic, records(RECORDS + 100 * number, 100))

        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "ours")).outputMode("update")
        query = writer.foreachBatch(keep).start()
        try:
            query.processAllAvailable()
            ours.progress = pyslash.progress(query)
        finally:
            query.stop()
    run(rows, tmp_path / "plain", "update", plain, mode="off")
    assert ours.last == plain.last
    read = [one["rows"] for one in ours.progress if one["rows"]]
    assert read[1:8:2] == [MOST] * 4, "of those that were skipped"
    assert all(0 < fresh < MOST for fresh in read[2:6:2]), "of those that have come meanwhile"
    shares = [one["fraction"] for one in ours.progress]
    assert shares[0] == MOST / RECORDS
    assert shares[-1] == 1.0
    for batch, figures in zip(ours.batches, ours.progress, strict=True):
        assert {row["_slash_tentative"] for row in batch} <= {figures["debt"] > 0}
        assert {row["_slash_fraction"] for row in batch} <= {figures["fraction"]}


@pytest.mark.parametrize(("then", "failing"), [("fresh-first", 2), ("ordered", 2), ("ordered", 7)])
def test_a_restart_goes_on_with_the_debt(
    spark: SparkSession, kafka: str, tmp_path: Path, then: str, failing: int
) -> None:
    """Also where the query has been set to read in order since; the failed micro-batch comes again as it was, the last
    one that pays, too.
    """
    topic = f"fresh-restart-{then}-{failing}"
    rows = by_key(events(source(spark, kafka, topic)))
    plain, ours = Given(), Given()
    produce(spark, kafka, topic, records(0, RECORDS))
    run_until(failing, rows, tmp_path / "ours", ours)
    with pytest.raises(InvalidInputError, match="has skipped records of its source"):
        export(spark, str(tmp_path / "ours"))
    produce(spark, kafka, topic, records(RECORDS, MOST // 2))
    run(rows, tmp_path / "ours", "append", ours, mode="require", backlog=then)
    run(rows, tmp_path / "plain", "append", plain, mode="off")
    assert ours.last == plain.last
    assert sum(len(batch) for batch in ours.batches) == len(ours.last)
    assert ours.progress[0]["replayed"]
    assert ours.progress[0]["debt"] == RECORDS - (failing + 1) * MOST
    assert ours.progress[-1]["debt"] == 0
    assert ours.watermarks[-1] == plain.watermarks[-1]


def test_records_that_wait_for_too_long(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """An error that leaves all as it was, or they are let go, and progress says so."""
    topic = "fresh-expired"
    rows = by_key(events(source(spark, kafka, topic)))
    produce(spark, kafka, topic, records(0, RECORDS))
    expires = {"mode": "require", "backlog": "fresh-first", "backlog_expire": "1s"}

    def slow(batch: DataFrame, number: int) -> None:
        time.sleep(1.2)  # the time of the test: until what was skipped is too old

    for _ in range(2):  # the second start finds what the first one has left
        with settings(spark, **expires):
            writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "ours")).outputMode("update")
            with pytest.raises(StreamingQueryException, match=r"BacklogExpiredError: 7000 records have waited"):
                writer.foreachBatch(slow).trigger(availableNow=True).start().awaitTermination()
    given = Given()
    run(rows, tmp_path / "ours", "update", given, **expires, backlog_expired="shed")
    assert given.progress[0]["debt_shed"] == RECORDS - MOST
    assert given.progress[-1]["debt"] == 0
    assert sum(one["rows"] for one in given.progress) == 0
    produce(spark, kafka, topic, records(RECORDS, 10))
    run(rows, tmp_path / "ours", "update", given, **expires, backlog_expired="shed")
    assert "debt" not in offsets(tmp_path / "ours")[-1]
    assert sum(one["rows"] for one in given.progress) == 10


def test_partitions_without_news(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """One has never had a record, and in the end another one has no more: the connector wants to be told of each."""
    topic = "fresh-quiet"
    create(kafka, topic, partitions=3)
    rows = by_key(events(source(spark, kafka, topic)))
    plain, ours = Given(), Given()
    produce(spark, kafka, topic, records(0, RECORDS))
    run(rows, tmp_path / "ours", "update", ours, mode="require", backlog="fresh-first")
    for number in range(4):
        produce(spark, kafka, topic, records(RECORDS + number, 1))
        run(rows, tmp_path / "ours", "update", ours, mode="require", backlog="fresh-first")
    run(rows, tmp_path / "plain", "update", plain, mode="off")
    assert ours.last == plain.last
    assert ours.progress[0]["debt"] == RECORDS - MOST
    assert offsets(tmp_path / "ours")[-1] == offsets(tmp_path / "plain")[-1]


@pytest.mark.parametrize("then", ["fresh-first", "ordered"])
def test_a_topic_that_grows_while_there_is_debt(spark: SparkSession, kafka: str, tmp_path: Path, then: str) -> None:
    """The connector plans no micro-batch that pays without the partition that is new."""
    topic = f"fresh-grown-{then}"
    create(kafka, topic, partitions=2)
    rows = by_key(events(source(spark, kafka, topic)))
    ours = Given()
    produce(spark, kafka, topic, records(0, 4 * MOST))
    with settings(spark, mode="require", backlog="fresh-first"):
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "ours")).outputMode("update")
        sink = writer.foreachBatch(lambda batch, _: ours.batches.append(batch.collect()))
        query = sink.trigger(processingTime="1 hour").start()
        deadline = time.monotonic() + 60
        while query.lastProgress is None:  # then its first micro-batch is committed
            assert time.monotonic() < deadline
            time.sleep(0.05)
        query.stop()
    grow(spark, kafka, topic, records(4 * MOST, 50))
    run(rows, tmp_path / "ours", "update", ours, mode="require", backlog=then)
    assert ours.last == in_one_batch(spark, kafka, topic)
    debts = [(one["rows"], one["debt"]) for one in ours.progress if one["rows"]]
    assert debts == [(50, 3 * MOST), (MOST, 2 * MOST), (MOST, MOST), (MOST, 0)]
    assert offsets(tmp_path / "ours")[-1] == {topic: {"0": 2 * MOST, "1": 2 * MOST, "2": 50}}


def test_a_new_partition_is_not_read_in_one_piece(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """Its oldest records come first, as many as a micro-batch may have; of the others then the newest."""
    topic = "fresh-new"
    create(kafka, topic, partitions=2)
    rows = by_key(events(source(spark, kafka, topic)))
    ours = Given()
    produce(spark, kafka, topic, records(0, MOST))
    run(rows, tmp_path / "ours", "update", ours, mode="require", backlog="fresh-first")
    grow(spark, kafka, topic, records(MOST, 3 * MOST))
    run(rows, tmp_path / "ours", "update", ours, mode="require", backlog="fresh-first")
    assert ours.last == in_one_batch(spark, kafka, topic)
    read = [(one["rows"], one["debt"]) for one in ours.progress if one["rows"]]
    assert read == [(MOST, 0), (MOST, 0), (MOST, MOST), (MOST, 0)]
    assert offsets(tmp_path / "ours")[-1] == {topic: {"0": MOST // 2, "1": MOST // 2, "2": 3 * MOST}}


def test_fewer_records_than_partitions_in_a_micro_batch(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """One of each partition, as by the connector: none is without rows."""
    topic = "fresh-thin"
    create(kafka, topic, partitions=2)
    grow(spark, kafka, topic, records(0, 10))
    produce(spark, kafka, topic, records(10, 20))
    ours = Given()
    rows = events(source(spark, kafka, topic, most=2)).groupBy("key").agg(F.count("*"))
    run(rows, tmp_path / "ours", "complete", ours, mode="require", backlog="fresh-first")
    read = [(one["rows"], one["debt"]) for one in ours.progress if one["rows"]]
    assert read == [(3, left) for left in range(27, -1, -3)]
    assert sum(row[1] for row in ours.batches[-1]) == 30


def test_topics_that_are_not_there_yet(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """No data, as in order."""
    options = {"kafka.bootstrap.servers": kafka, "subscribePattern": "fresh-later-.*", "startingOffsets": "earliest"}
    rows, found = events(spark.readStream.format("kafka").options(**options).load()), []
    with settings(spark, mode="require", backlog="fresh-first"):
        writer = rows.groupBy("key").count().writeStream.option("checkpointLocation", str(tmp_path / "ours"))
        sink = writer.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        query = sink.outputMode("update").start()
        try:
            query.processAllAvailable()
            create(kafka, "fresh-later-1")
            produce(spark, kafka, "fresh-later-1", records(0, 70))
            query.processAllAvailable()
        finally:
            query.stop()
    # One partition's records may have come before those of the other, and an update of each count with them.
    assert list({row["key"]: row["count"] for row in found}.values()) == [10] * 7


def test_a_topic_that_begins_anew_is_an_error_as_in_order(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """By the connector's own words: records may have been lost."""
    from confluent_kafka.admin import AdminClient

    topic = "fresh-anew"
    create(kafka, topic)
    rows = by_key(events(source(spark, kafka, topic)))
    produce(spark, kafka, topic, records(0, 2 * MOST))
    run(rows, tmp_path / "ours", "update", Given(), mode="require", backlog="fresh-first")
    client = AdminClient({"bootstrap.servers": kafka})
    client.delete_topics([topic])[topic].result(30)
    deadline = time.monotonic() + 30
    while topic in client.list_topics(timeout=30).topics:
        assert time.monotonic() < deadline
        time.sleep(0.1)  # polling another process, up to the deadline
    create(kafka, topic)
    produce(spark, kafka, topic, records(0, 10))
    with pytest.raises(StreamingQueryException, match="offset was changed from 1000 to 5"):
        run(rows, tmp_path / "ours", "update", Given(), mode="require", backlog="fresh-first")


def test_a_query_whose_rows_depend_on_their_order_reads_in_order(
    spark: SparkSession, kafka: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says why; it runs on pyslash all the same."""
    topic = "fresh-never"
    produce(spark, kafka, topic, records(0, 3 * MOST))
    of_topic = source(spark, kafka, topic)
    union = by_key(events(of_topic.unionByName(source(spark, kafka, topic))))
    for number, (rows, why) in enumerate(
        [
            (events(of_topic).dropDuplicates(["key"]), "depend on the order in which records come"),
            (union, "it reads kafka, kafka"),
        ]
    ):
        given = Given()
        with settings(spark, mode="require", backlog="fresh-first"):
            writer = rows.writeStream.option("checkpointLocation", str(tmp_path / str(number))).outputMode("append")
            query = writer.foreachBatch(lambda batch, _: None).trigger(availableNow=True).start()
            query.awaitTermination()
            given.progress = pyslash.progress(query)
        assert why in caplog.text
        assert {one["debt"] for one in given.progress} == {0}
        assert "debt" not in offsets(tmp_path / str(number))[0]


@pytest.mark.parametrize("kills", [1, pytest.param(12, marks=pytest.mark.nightly)])
def test_each_record_counts_once_under_kills(kafka: str, tmp_path: Path, kills: int) -> None:
    """The example, its driver killed at moments of chance: the last row of each window is the right one."""
    from confluent_kafka import Producer

    topic, clicks = f"fresh-killed-{kills}", 6_000 + 4_000 * kills
    create(kafka, topic)
    producer = Producer({"bootstrap.servers": kafka})
    expected: Counter[tuple[str, str]] = Counter()
    for number in range(clicks):
        at, page = datetime.fromtimestamp(START + number * 0.05, UTC), f"/{number % 5}"
        producer.produce(topic, json.dumps({"at": at.isoformat(), "page": page}), partition=number * 7 % 2)
        expected[at.strftime("%H:%M"), page] += 1
    producer.flush()
    script = ROOT / "examples" / "fresh_clicks.py"
    arguments = ["--servers", kafka, "--topic", topic, "--checkpoint", str(tmp_path / "checkpoint"), "--available-now"]
    arguments += ["--rows", str(tmp_path / "rows"), "--offsets-per-trigger", "600"]
    on = {
        "spark.slash.backlog": "fresh-first",
        "spark.slash.backlog.columns": "on",
        "spark.sql.session.timeZone": "UTC",
    }
    job, draw = Job(script, arguments, tmp_path, **on), random.Random(7)
    commits = tmp_path / "checkpoint" / "commits"
    done = 0
    for _ in range(kills):
        job.start()
        aim = done + draw.randrange(2, 5)
        while job.is_running() and done < aim:
            done = max((int(path.name) for path in commits.glob("[0-9]*")), default=0)
            time.sleep(draw.random() * 0.05)
        assert job.is_running(), "it has ended before it was killed"
        job.kill()
    job.start()
    while job.is_running():
        time.sleep(0.1)
    found, tentative = {}, {}
    for folder in sorted((tmp_path / "rows").iterdir()):
        for path in folder.glob("*.json"):
            for line in path.read_text().splitlines():
                row = json.loads(line)
                found[row["start"][11:16], row["page"]] = row["count"]
                tentative[folder.name] = row["_slash_tentative"]
    assert found == expected
    assert set(tentative.values()) == {True, False}
