"""Which partitions of topics rows come late from: as many of each as `spark.slash.late` keeps, epoch by epoch."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

import pyslash
from eval.pipelines.topic import create
from tests.support.attempt import settings
from tests.watch import processes
from tests.watch.page import number, table

START_MS = int(time.time()) // 10 * 10_000 - 3_600_000  # the broker deletes records that are a week old
# Seconds of the records that each partition gets in a round: 1 falls behind, 2 has no more, and 0 is always in time.
ROUNDS: list[dict[int, list[int]]] = [
    {0: [0, 4, 8], 1: [1, 2], 2: [3, 7]},
    {0: [100, 104], 1: [9, 8, 7]},
    {0: [200], 1: [10, 11], 2: [5]},
    {0: [300, 301, 302], 1: [40, 41, 42, 43]},
]
Sent = Sequence[Mapping[int, Sequence[int]]]


def send(kafka: str, topic: str, by_partition: Mapping[int, Sequence[int]]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka})
    for partition, times in by_partition.items():
        for second in times:
            producer.produce(topic, f"{second}", "k", partition=partition, timestamp=START_MS + 1000 * second)
    producer.flush()


def source(spark: SparkSession, kafka: str, topic: str, **options: str) -> DataFrame:
    every = {"kafka.bootstrap.servers": kafka, "subscribe": topic, "startingOffsets": "earliest", **options}
    return spark.readStream.format("kafka").options(**every).load().withWatermark("timestamp", "10 seconds")


def windows(rows: DataFrame) -> DataFrame:
    """In one stage with the reader: tasks collect event times."""
    return rows.groupBy(F.window("timestamp", "10 seconds")).agg(F.count("*"), F.max("partition"))


def lists(rows: DataFrame) -> DataFrame:
    """Of Spark's own code, with its operator that collects event times; a task's rows of a window come as one."""
    return rows.groupBy(F.window("timestamp", "10 seconds")).agg(F.collect_list("partition"))


def distinct(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["timestamp", "partition", "offset"]).select("timestamp", "partition", "offset")


@dataclass
class Kept:
    """What a query has told, and the rows that it has kept as late."""

    progress: list[dict[str, Any]]
    late: list[Any]
    metrics: dict[str, float]
    page: str
    come_as_one: bool = False

    def told(self, epoch: int) -> Counter[tuple[int, str]]:
        """Late rows of an epoch, by input and partition."""
        (done,) = [one for one in self.progress if one["epoch"] == epoch]
        return +Counter({(one["input"], one["partition"]): one["late_rows"] for one in done["partitions"]})

    def counted(self, epoch: int, topics: Sequence[str]) -> Counter[tuple[int, str]]:
        """The same of the rows that were kept; `topics`: of each input."""
        rows = [row for row in self.late if row["epoch"] == epoch]
        if self.come_as_one:
            rows = [*{(row["partition"], row["_slash_late_ms"]): row for row in rows}.values()]
        return Counter((row["input"], f"{topics[row['input']]}-{row['partition']}") for row in rows)

    def check(self, *topics: str, come_as_one: bool = False) -> None:
        """Epoch by epoch what was told is what was kept; `come_as_one`: rows of a partition and a window do."""
        self.come_as_one = come_as_one
        assert len({row["epoch"] for row in self.late}) > 1
        for done in self.progress:
            assert self.told(done["epoch"]) == self.counted(done["epoch"], topics)
            assert sum(self.told(done["epoch"]).values()) == done["late_rows"]
        totals = Counter({(one["input"], one["partition"]): one["late_rows_in_all"] for one in self.last})
        assert +totals == sum((self.counted(done["epoch"], topics) for done in self.progress), Counter())

    @property
    def last(self) -> list[dict[str, Any]]:
        """The partitions, as of the last epoch."""
        return list(self.progress[-1]["partitions"])


@contextmanager
def started(query: DataFrame, folder: Path, **conf: str) -> Iterator[StreamingQuery]:
    values = {"mode": "require", "late": str(folder / "late"), **conf}
    with settings(query.sparkSession, {f"spark.slash.{name}": value for name, value in values.items()}):
        writer = query.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
        running = writer.start()
        try:
            yield running
        finally:
            running.stop()


def kept(query: DataFrame, folder: Path, kafka: str, sent: Mapping[str, Sent], **conf: str) -> Kept:
    """Each round's records of these topics are there, and have been read, before the next one's come."""
    spark = query.sparkSession
    with started(query, folder, **conf) as running:
        for number_of_round in range(len(ROUNDS)):
            for topic, rounds in sent.items():
                send(kafka, topic, rounds[number_of_round])
            running.processAllAvailable()
        progress = pyslash.progress(running)
        shown = gauges(spark, running), page(spark, running)
    rows = []
    for source_ in sorted((folder / "late").glob("query=*/operator=0/input=*")):
        rows += spark.read.option("basePath", str(folder / "late")).parquet(str(source_)).collect()
    return Kept(progress, rows, *shown)


def gauges(spark: SparkSession, query: StreamingQuery) -> dict[str, float]:
    """Metrics of a query, gauges and counters, by what stands behind its id in their names."""
    jvm: Any = spark._jvm
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    (source,) = jvm.scala.jdk.javaapi.CollectionConverters.asJava(
        spark.sparkContext._jsc.sc().env().metricsSystem().getSourcesByName("pyslash")
    )
    registry, start = source.metricRegistry(), f"queries.{query.id}."
    counted = {str(name): float(one.getCount()) for name, one in registry.getCounters().items()}
    told = {str(name): one.getValue() for name, one in registry.getGauges().items()}
    return {name.removeprefix(start): value for name, value in (counted | told).items() if name.startswith(start)}


def page(spark: SparkSession, query: StreamingQuery) -> str:
    """A query's in the tab."""
    html = processes.get(f"{spark.sparkContext.uiWebUrl}/slash/query/?run={query.runId}")
    assert html is not None
    return html


def check_newest(partitions: Sequence[dict[str, Any]], topic: str, sent: Sent) -> None:
    """Each has the newest time that was sent to it, and how far that of all is past it."""
    newest = {
        f"{topic}-{number}": max(START_MS + 1000 * second for one in sent for second in one.get(number, []))
        for number in {number for one in sent for number in one}
    }
    assert {one["partition"]: one["newest_ms"] for one in partitions} == newest
    assert {one["partition"]: one["behind_ms"] for one in partitions} == {
        name: max(newest.values()) - time for name, time in newest.items()
    }


@pytest.mark.parametrize("reader", ["auto", "spark"])
@pytest.mark.parametrize("query", [windows, lists, distinct])
def test_each_partition_has_its_late_rows_and_its_newest_time(
    spark: SparkSession, kafka: str, tmp_path: Path, reader: str, query: Callable[[DataFrame], DataFrame]
) -> None:
    topic = f"late-{query.__name__}-{reader}"
    create(kafka, topic, partitions=3)
    found = kept(query(source(spark, kafka, topic)), tmp_path, kafka, {topic: ROUNDS}, **{"ingest.kafka": reader})
    found.check(topic, come_as_one=query is lists)
    check_newest(found.last, topic, ROUNDS)
    last_with_late = [one for one in found.progress if one["late_rows"]][-1]
    assert last_with_late["partitions"][0]["partition"] == f"{topic}-1", "it has lost most"
    epochs = {one["partition"]: one["last_epoch"] for one in found.last}
    assert epochs[f"{topic}-2"] < epochs[f"{topic}-1"], "it is idle"


def test_a_partition_that_several_tasks_read_is_one(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    topic = "late-ranges"
    create(kafka, topic, partitions=3)
    found = kept(windows(source(spark, kafka, topic, minPartitions="9")), tmp_path, kafka, {topic: ROUNDS})
    found.check(topic)
    check_newest(found.last, topic, ROUNDS)


@pytest.mark.parametrize("how", ["coalesce", "repartition", "strategy"])
def test_of_a_task_with_rows_of_several_none_is_told(spark: SparkSession, kafka: str, tmp_path: Path, how: str) -> None:
    """No partition gets another one's late rows: those of all are what is known."""
    topic = f"late-{how}"
    create(kafka, topic, partitions=3)
    rows = source(spark, kafka, topic)
    rows = {"coalesce": rows.coalesce(1), "repartition": rows.repartition(2), "strategy": rows}[how]
    conf = {"strategy": "repartition"} if how == "strategy" else {}
    found = kept(windows(rows), tmp_path, kafka, {topic: ROUNDS}, **conf)
    assert sum(one["late_rows"] for one in found.progress) == len(found.late) > 5
    assert sum(one["late_rows"] for done in found.progress for one in done["partitions"]) == 0


def test_of_a_join_each_side_counts_its_own(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    topics = ["late-left", "late-right"]
    create(kafka, *topics, partitions=3)
    left, right = (
        source(spark, kafka, topic).select("timestamp", "key", "partition").alias(topic[5]) for topic in topics
    )
    near = F.expr("l.key = r.key AND r.timestamp BETWEEN l.timestamp AND l.timestamp + INTERVAL 2 SECONDS")
    # On the right other partitions fall behind, and one of its rounds has no late row.
    moved = [{(place + 2) % 3: times for place, times in one.items()} for one in ROUNDS]
    moved[2] = {2: [200]}
    found = kept(left.join(right, near, "full_outer"), tmp_path, kafka, dict(zip(topics, (ROUNDS, moved), strict=True)))
    found.check(*topics)
    for side, sent in enumerate((ROUNDS, moved)):
        check_newest([one for one in found.last if one["input"] == side], topics[side], sent)
    for done in found.progress:
        rows = [row["input"] for row in found.late if row["epoch"] == done["epoch"]]
        assert done["late_by_input"] in ([rows.count(0), rows.count(1)], [])
        assert not rows or "left {}, right {}".format(*done["late_by_input"]) in found.page
    sides = Counter(row["input"] for row in found.late)
    assert sides[0] != sides[1] > 0
    assert (found.metrics["lateRowsLeft"], found.metrics["lateRowsRight"]) == (sides[0], sides[1])


def test_the_tab_and_the_metrics_have_those_that_lose_rows(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    topic = "late-shown"
    create(kafka, topic, partitions=3)
    with started(windows(source(spark, kafka, topic)), tmp_path) as running:
        send(kafka, topic, {0: [0], 1: [5], 2: [6]})
        running.processAllAvailable()
        assert not [name for name in gauges(spark, running) if "partitions" in name], "none loses any"
        assert 'id="partitions"' not in page(spark, running)
        for by_partition in ({1: [400]}, {0: [500]}, {1: [500], 2: [7, 8]}):
            send(kafka, topic, by_partition)
            running.processAllAvailable()
        found, html = gauges(spark, running), page(spark, running)
        told = {one["partition"]: one for one in pyslash.progress(running)[-1]["partitions"]}
    assert {name: value for name, value in found.items() if name.startswith("partitions.")} == {
        f"partitions.{topic}-2.lateRows": 2,
        f"partitions.{topic}-2.behindMs": 492_000,
    }
    (row,) = table(html, "partitions")
    assert row["Partition"] == f"{topic}-2"
    assert number(row["Late rows in all"]) == told[f"{topic}-2"]["late_rows_in_all"] == 2
    assert number(row["Behind the newest of all (ms)"]) == told[f"{topic}-2"]["behind_ms"] == 492_000
    assert number(row["Last epoch with rows"]) == told[f"{topic}-2"]["last_epoch"]
    newest = datetime.fromtimestamp(START_MS // 1000 + 8, UTC)
    assert row["Newest event time (UTC)"] == f"{newest:%Y-%m-%d %H:%M:%S}"
    assert not [name for name in gauges(spark, running) if name.startswith("partitions.")], "it has ended"
