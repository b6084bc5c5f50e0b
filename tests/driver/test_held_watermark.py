"""Which input holds the watermark back: `pyslash.progress`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.driver.held_watermark import Held, HeldWatermark
from pyslash.spark.execution import InputWatermark
from tests.support.attempt import settings
from tests.support.stream import seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])


def test_the_lowest_holds_it_until_it_rises_past_another() -> None:
    held = HeldWatermark()

    def look(a: int, b: int, now: float, policy: str = "min") -> Held:
        return held.of([InputWatermark("a", a), InputWatermark("b", b)], policy, now)

    assert look(5, -1, 10.0) == Held("b", 0)
    assert look(9, -1, 12.5) == Held("b", 2500)
    assert look(9, 7, 13.0) == Held("b", 0)
    assert look(9, 20, 14.0) == Held("a", 1500)
    assert look(9, 20, 15.0, "max") == Held("b", 1000)
    assert look(9, 20, 16.0, "MAX") == Held("b", 2000)


@pytest.mark.parametrize("policy", ["min", "max"])
def test_of_a_union_it_is_the_source_that_is_behind(spark: SparkSession, tmp_path: Path, policy: str) -> None:
    names = ["fast", "slow"]
    for name in names:
        (tmp_path / name).mkdir()

    def add(name: str, number: int, second: int) -> None:
        pq.write_table(pa.table([[seconds(second)], [number]], schema=SCHEMA), tmp_path / name / f"{number}.parquet")

    def read(name: str) -> DataFrame:
        rows = spark.readStream.schema("ts timestamp, k long").parquet(str(tmp_path / name))
        return rows.withWatermark("ts", "1 second")

    counts = read("fast").union(read("slow")).groupBy(F.window("ts", "10 seconds")).count()
    writer = counts.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    conf = {"spark.slash.mode": "require", "spark.sql.streaming.multipleWatermarkPolicy": policy}
    pyslash.enable(spark)
    with settings(spark, conf):
        query = writer.start()
        try:
            for number, (fast, slow) in enumerate([(100, 50), (200, 51), (300, 52)]):
                add("fast", number, fast)
                add("slow", number, slow)
                query.processAllAvailable()
            figures = pyslash.progress(query)[-1]
        finally:
            query.stop()
    holder, other = names if policy == "max" else reversed(names)
    assert str(tmp_path / holder) in figures["held_by"]
    assert str(tmp_path / other) not in figures["held_by"]
    assert figures["held_ms"] >= 0


def test_one_watermark_is_held_by_nobody(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table([[seconds(1)], [1]], schema=SCHEMA), tmp_path / "1.parquet")
    rows = spark.readStream.schema("ts timestamp, k long").parquet(str(tmp_path)).withWatermark("ts", "1 second")
    writer = rows.groupBy(F.window("ts", "10 seconds")).count().writeStream.format("noop")
    pyslash.enable(spark)
    with settings(spark, {"spark.slash.mode": "require"}):
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
    assert {(one["held_by"], one["held_ms"]) for one in pyslash.progress(query)} == {("", 0)}
