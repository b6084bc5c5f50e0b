"""A query that is started again with other aggregates, on the checkpoint that it had."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import pyslash
from tests.streaming.stream import EPOCH, Stream, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Iterator[Stream]:
    """Windows stay open over all batches."""
    pyslash.enable(spark)
    spark.conf.set("spark.slash.mode", "require")
    yield Stream(spark, tmp_path, SCHEMA, delay_seconds=100)
    spark.conf.unset("spark.slash.mode")
    spark.conf.unset("spark.slash.plan.change")
    pyslash.disable()


def add(stream: Stream, batches: int) -> None:
    for _ in range(batches):
        at = len(stream.batches)
        times = [seconds(1000 + 7 * at + i % 10) for i in range(60)]
        stream.add(pa.table({"ts": times, "k": [i % 5 for i in range(60)], "v": [at + i for i in range(60)]}, SCHEMA))


def run(stream: Stream, *aggregates: Column, slide: str = "5 seconds") -> list[tuple[int, ...]]:
    rows: list[tuple[int, ...]] = []
    counts = stream.read().groupBy(F.window("ts", "10 seconds", slide), "k").agg(*aggregates)
    writer = counts.writeStream.option("checkpointLocation", str(stream.folder / "checkpoint"))
    query = writer.foreachBatch(
        lambda batch, epoch: rows.extend(
            (int((row[0].start.astimezone(EPOCH.tzinfo) - EPOCH).total_seconds()), *row[1:]) for row in batch.collect()
        )
    )
    assert query.trigger(availableNow=True).start().awaitTermination(120)
    return sorted(rows)


def test_an_aggregate_that_stays_keeps_its_history_and_one_that_is_added_begins(stream: Stream) -> None:
    add(stream, 3)
    assert run(stream, F.count("*"), F.sum("v"), F.min("v")) == []
    first_added = len(stream.batches)
    add(stream, 2)
    stream.add(pa.table({"ts": [seconds(9000)], "k": [0], "v": [0]}, SCHEMA))
    stream.spark.conf.set("spark.slash.plan.change", "aggregates")
    found = run(stream, F.sum("v"), F.max(F.col("v") * 2))
    groups: dict[tuple[int, int], list[int | None]] = defaultdict(lambda: [0, None])
    for index, batch in enumerate(stream.batches[:-1]):
        for time, k, v in zip(
            batch["ts"].cast(pa.int64()).to_pylist(), *(batch[c].to_pylist() for c in "kv"), strict=True
        ):
            second = time // 1_000_000
            for start in (second - second % 5, second - second % 5 - 5):
                group = groups[start, k]
                group[0] += v
                if index >= first_added:
                    group[1] = max(group[1] or 0, 2 * v)
    assert found == sorted((*group, *values) for group, values in groups.items())
    assert any(values[1] is None for values in groups.values())


def test_a_query_that_has_changed_is_refused_and_told_in_what(stream: Stream) -> None:
    add(stream, 1)
    run(stream, F.count("*"), F.sum("v"))
    add(stream, 1)
    with pytest.raises(StreamingQueryException) as refused:
        run(stream, F.count("*"), F.max("v"), slide="10 seconds")
    text = str(refused.value)
    assert "the window: 0:00:10 sliding by 0:00:05 -> 0:00:10" in text
    assert "an aggregate dropped: sum(v)" in text
    assert "an aggregate added: max(v)" in text
