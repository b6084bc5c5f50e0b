"""Records of topics that are not one behind the other: what comes past Spark's reader is what Spark's reader gives."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from eval.broker import broker
from pyslash.spark.session import changed
from tests.support.record_stream import Run, both

START_MS = int(time.time()) // 10 * 10_000 - 3_600_000  # the broker deletes records that are a week old


def send(producer: Any, topic: str, first: int, count: int) -> None:
    """Numbered records, half a second of time apart, each fifth without a value."""
    for number in range(first, first + count):
        value = None if number % 5 == 0 else f"record {number}"
        producer.produce(topic, value, f"{number % 7}", partition=0, timestamp=START_MS + number * 500)
    producer.flush()


def produce(kafka: str, topic: str, count: int) -> None:
    """So many records, one behind the other."""
    from confluent_kafka import Producer

    send(Producer({"bootstrap.servers": kafka}), topic, 0, count)


def delete_before(kafka: str, topic: str, offset: int) -> None:
    """Delete the records of partition 0 before an offset."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": kafka})
    for done in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        done.result(30)


def query(spark: SparkSession, kafka: str, topic: str, condition: str = "true", **options: str) -> DataFrame:
    """All columns but headers, in windows of the records' own time; 700 records in a micro-batch."""
    topics = {} if "subscribePattern" in options else {"subscribe": topic}
    every = {**topics, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "700", **options}
    records = (
        spark.readStream.format("kafka").options(**{"kafka.bootstrap.servers": kafka}, **every).load().where(condition)
    )
    grouped = records.withWatermark("timestamp", "10 seconds").groupBy(F.window("timestamp", "10 seconds"), "key")
    return grouped.agg(
        F.count("*").alias("records"),
        F.count("value").alias("values"),
        F.max(F.col("value").cast("string")).alias("last"),
        F.sum("offset").alias("offsets"),
        F.min("partition").alias("partition"),
        F.max("topic").alias("topic"),
        F.max("timestampType").alias("type"),
    )


def compared(tmp_path: Path, rows: DataFrame) -> tuple[Run, Run]:
    """Plain Spark's run of it and pyslash's, which gave the same."""
    plain, native = both(rows, tmp_path)
    native.check_rows(plain)
    return plain, native


def test_explain_tells_who_fetches_the_records(spark: SparkSession) -> None:
    """Nobody does before the query starts: there is no broker."""
    headers = spark.readStream.format("kafka").options(
        **{"kafka.bootstrap.servers": "localhost:1", "subscribe": "none", "includeHeaders": "true"}
    )
    times = F.window("timestamp", "10 seconds")
    parsed = headers.load().select("timestamp", F.from_json(F.col("value").cast("string"), "v long").alias("row"))
    for rows, conf, said in (
        (query(spark, "localhost:1", "none"), {}, "executors fetch records of topics"),
        (
            query(spark, "localhost:1", "none"),
            {"spark.slash.ingest.kafka": "spark"},
            "Spark's reader fetches records: spark.slash.ingest.kafka=spark",
        ),
        (headers.load().groupBy(times, "key").count(), {}, "executors fetch records of topics"),
        (
            headers.load().groupBy(times, F.size("headers")).count(),
            {},
            "Spark's reader fetches records: headers of records are read",
        ),
        (
            parsed.groupBy(times).agg(F.sum("row.v")),
            {},
            "executors fetch records of topics; native code parses from_json",
        ),
    ):
        with changed(spark, conf):
            assert f"  ingest      rows: {said}\n" in pyslash.explain(rows, "update")


def read(run: Run) -> int:
    """How many records Spark counts of it."""
    return sum(int(rows) for rows, _ in run.figures)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions(spark: SparkSession, kafka: str, tmp_path: Path, isolation: str) -> None:
    """Aborted records, and markers of which the log's end is one, leave gaps that no record is missed in."""
    from confluent_kafka import Producer

    topic = f"transactions-{isolation}"
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
    producer.init_transactions()
    for part in range(6):
        producer.begin_transaction()
        send(producer, topic, part * 400, 400)
        if part in (1, 5):
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    rows = query(spark, kafka, topic, **{"kafka.isolation.level": isolation})
    plain, native = compared(tmp_path, rows)
    assert read(plain) == (1600 if isolation == "read_committed" else 2400)
    assert sum(one["records_fetched"] for one in native.ours) == read(plain)


def test_a_compacted_topic(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """The broker has kept the last record of each key: offsets have gaps, and micro-batches few records or none."""
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = "compacted"
    settings = {"cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01"}
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(30)
    producer = Producer({"bootstrap.servers": kafka})
    for first in range(0, 2400, 400):
        for number in range(first, first + 400):
            key = number % 7 if number < 1500 else number  # all but the last records of seven keys go
            producer.produce(topic, f"record {number}", f"{key}", partition=0, timestamp=START_MS + number * 500)
        producer.flush()
        time.sleep(0.1)  # the next one opens a segment: the cleaner leaves the open one alone
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "count", "enable.partition.eof": True})
    end = time.monotonic() + 60
    kept, left = 0, 7 + 900
    while kept != left:  # until nothing is left to clean: the broker cleans a topic in several passes
        assert time.monotonic() < end, f"the broker has not compacted its topic: {kept} records"
        time.sleep(0.2)
        consumer.assign([TopicPartition(topic, 0, 0)])
        kept = 0
        while (message := consumer.poll(10)) is not None and message.error() is None:
            kept += 1
    consumer.close()
    plain, native = compared(tmp_path, query(spark, kafka, topic))
    assert read(plain) == left
    assert sum(one["records_fetched"] for one in native.ours) == left


def test_a_broker_that_wants_a_password(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's options of the connection are those of the reader that goes past Spark's."""
    from confluent_kafka import Producer

    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="client" password="open";'
    options = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": login,
    }
    with broker(password="open") as address:
        named = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        as_client = {"sasl.username": "client", "sasl.password": "open"}
        send(Producer({"bootstrap.servers": address, **named, **as_client}), "locked", 0, 1400)
        plain, native = compared(tmp_path, query(spark, address, "locked", **options))
    assert read(plain) == 1400
    assert sum(one["records_fetched"] for one in native.ours) == 1400


def test_ranges_of_one_partition(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """Spark divides a partition's records among several tasks, each with a consumer of its own."""
    topic = "ranges"
    produce(kafka, topic, 2500)
    plain, native = compared(tmp_path, query(spark, kafka, topic, minPartitions="5"))
    assert read(plain) == 2500
    assert sum(one["records_fetched"] for one in native.ours) == 2500


def test_topics_by_a_pattern(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """Of several partitions, from a time on; with times of the broker, null keys, headers that nobody reads."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": kafka})
    for topic, settings in (("pattern-a", {}), ("pattern-b", {"message.timestamp.type": "LogAppendTime"})):
        admin.create_topics([NewTopic(topic, 3, 1, config=settings)])[topic].result(30)
    producer = Producer({"bootstrap.servers": kafka})
    for number in range(1800):
        producer.produce(
            f"pattern-{'ab'[number % 2]}",
            None if number % 11 == 0 else f"record {number}",
            None if number % 5 == 0 else f"{number % 7}",
            partition=number % 3,
            timestamp=START_MS + number * 500,
            headers={"number": f"{number}"},
        )
    producer.flush()
    options = {"includeHeaders": "true", "minPartitions": "8", "startingTimestamp": f"{START_MS + 100_000}"}
    rows = query(spark, kafka, "", subscribePattern="pattern-.*", **options)
    plain, native = compared(tmp_path, rows)
    assert read(plain) == 1800 - 100  # the broker gives its own times later ones
    assert sum(one["records_fetched"] for one in native.ours) == read(plain)


@pytest.mark.parametrize("fails", ["true", "false"])
def test_records_that_are_gone_when_they_are_read(spark: SparkSession, kafka: str, tmp_path: Path, fails: str) -> None:
    """A micro-batch comes again, and its first records have been deleted since: Spark's reader decides."""
    topic = f"gone-{fails}"
    produce(kafka, topic, 2000)
    rows = query(spark, kafka, topic, failOnDataLoss=fails)
    broken = query(spark, kafka, topic, "raise_error('not yet') IS NULL", failOnDataLoss=fails)
    pyslash.enable(spark)
    runs = {mode: Run(rows, tmp_path / mode, mode) for mode in ("off", "require")}
    errors = []
    try:
        for mode in runs:
            with pytest.raises(StreamingQueryException, match="not yet"):
                Run(broken, tmp_path / mode, mode).go_on()
        delete_before(kafka, topic, 100)
        for run in runs.values():
            try:
                run.go_on()
            except StreamingQueryException as error:
                errors.append(str(error))
    finally:
        spark.conf.unset("spark.slash.mode")
        pyslash.disable()
    assert runs["require"].batches == runs["off"].batches
    assert runs["require"].figures == runs["off"].figures
    assert len(errors) == (2 if fails == "true" else 0)
    if fails == "false":
        first, *others = [one["records_fetched"] for one in runs["require"].ours if one["rows"]]
        assert first == 0
        assert sum(others) == 2000 - 700
