"""How merged rows reach Spark: as columns where tasks have merged them, wherever the blocks are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from tests.support.stream import Outcome, Stream, differences, run, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int64())])


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """Keys of many lengths, some null, and more rows in a window than a batch of the merge has."""
    made = Stream(spark, tmp_path, SCHEMA, delay_seconds=0)
    for batch in range(3):
        size = 30_000
        keys = [None if i % 1000 == 0 else "k" * (i % 40) + str(i % 12_000) for i in range(size)]
        times = [seconds(1000 + 4 * batch + i / size * 4) for i in range(size)]
        made.add(pa.table({"ts": times, "k": keys, "v": [i if i % 3 else None for i in range(size)]}, SCHEMA))
    made.add(pa.table({"ts": [seconds(5000)], "k": ["end"], "v": [0]}, SCHEMA))
    return made


def window() -> Any:
    return F.window("ts", "4 seconds", "2 seconds")


def aggregated(rows: DataFrame) -> DataFrame:
    return rows.groupBy(window(), "k").agg(F.count("*"), F.sum("v"), F.max("k"))


def ran(stream: Stream, **conf: str) -> Outcome:
    return run(aggregated(stream.read()), stream.folder, **{"merge.driverBytes": "0", **conf})


@pytest.mark.parametrize("transport", [pytest.param("auto", marks=pytest.mark.nightly), "tcp"])
def test_the_rows_are_the_same_wherever_blocks_are(stream: Stream, transport: str) -> None:
    outcome = ran(stream, transport=transport)
    expected = stream.expected(window(), [F.col("k")], [F.count("*"), F.sum("v"), F.max("k")])
    assert len(expected) > 3 * 8192
    assert list(differences(outcome.rows, expected, 1)) == []
    assert {epoch["emit"] for epoch in outcome.progress if epoch["windows"]} == {"columns"}
    read = {name: size for epoch in outcome.progress for name, size in epoch["bytes_read"].items()}
    assert set(read) == {"tcp" if transport == "tcp" else "shm"}
    assert all(size > 0 for size in read.values())
    cores = stream.spark.sparkContext.defaultParallelism
    merged = [epoch for epoch in outcome.progress if epoch["windows"]]
    assert all(0 < epoch["merge_task_ms"] < cores * epoch["sink_ms"] for epoch in merged)
    assert all(0 < epoch["sink_task_ms"] < cores * epoch["sink_ms"] for epoch in merged)
    assert all(0 < epoch["update_task_ms"] < cores * epoch["update_ms"] for epoch in merged if epoch["rows"])
    assert told(outcome) == measured(outcome)


def test_a_merge_of_the_driver_has_its_time(stream: Stream) -> None:
    outcome = run(aggregated(stream.read()), stream.folder, **{"merge.driverBytes": "1g"})
    merged = [epoch for epoch in outcome.progress if epoch["windows"]]
    assert {epoch["merged_by"] for epoch in merged} == {"driver"}
    assert all(0 < epoch["merge_task_ms"] < epoch["merge_ms"] for epoch in merged)
    assert told(outcome) == measured(outcome)


def told(outcome: Outcome) -> dict[int, tuple[int, int]]:
    """By micro-batch: the milliseconds of updates and of removals that Spark's progress has."""
    operators = {each["batchId"]: each["stateOperators"][0] for each in outcome.spark_progress}
    return {epoch: (each["allUpdatesTimeMs"], each["allRemovalsTimeMs"]) for epoch, each in operators.items()}


def measured(outcome: Outcome) -> dict[int, tuple[int, int]]:
    """The same by pyslash's own progress."""
    return {each["epoch"]: (round(each["update_task_ms"]), round(each["merge_task_ms"])) for each in outcome.progress}


def test_a_sink_may_run_the_merge_twice_and_in_part(spark: SparkSession, stream: Stream) -> None:
    seen: list[tuple[int, int, int, int]] = []

    def sink(rows: DataFrame, epoch: int) -> None:
        seen.append((rows.count(), len(rows.collect()), rows.select("k").distinct().count(), len(rows.take(3))))

    pyslash.enable(spark)
    spark.conf.set("spark.slash.merge.driverBytes", "0")
    try:
        writer = aggregated(stream.read()).writeStream.foreachBatch(sink).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(stream.folder / "checkpoint")).start()
        query.awaitTermination(900)
    finally:
        spark.conf.unset("spark.slash.merge.driverBytes")
        pyslash.disable()
    counted, collected, keys, taken = map(sum, zip(*seen, strict=True))
    expected = stream.expected(window(), [F.col("k")], [F.count("*")])
    assert counted == collected == len(expected)
    assert keys >= 12_000
    assert taken > 0
