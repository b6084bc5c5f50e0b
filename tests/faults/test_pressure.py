"""State that is larger than its arena: the query spills and goes on, or fails before its commit with the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import pyslash
from tests.support.little_room import end_agents
from tests.support.stream import Stream, differences, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
KEYS, BATCHES = 20_000, 10
ARENA_BYTES = 4 << 20  # a quarter of it is its tables; a batch's block takes half a megabyte


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Iterator[Stream]:
    """No window closes before the last batch: all state is alive until then."""
    made = Stream(spark, tmp_path, SCHEMA, delay_seconds=1000)
    for batch in range(BATCHES):
        times = [seconds(1000 + 10 * batch)] * KEYS
        made.add(pa.table({"ts": times, "k": range(KEYS), "v": [key * batch for key in range(KEYS)]}, SCHEMA))
    made.add(pa.table({"ts": [seconds(5000)], "k": [0], "v": [0]}, SCHEMA))
    end_agents(spark)
    arena = spark.conf.get("spark.slash.arena.size")
    settings = {"mode": "require", "arena.size": str(ARENA_BYTES), "spill.dir": str(tmp_path)}
    for name, value in settings.items():
        spark.conf.set(f"spark.slash.{name}", value)
    pyslash.enable(spark)
    yield made
    pyslash.disable()
    for name in ("mode", "spill.dir", "spill.maxBytes", "ingest"):
        spark.conf.unset(f"spark.slash.{name}")
    assert arena is not None
    spark.conf.set("spark.slash.arena.size", arena)
    end_agents(spark)


def run(stream: Stream, rows: list[Any]) -> list[dict[str, Any]]:
    """Runs the query to its end; the figures of its epochs."""
    counts = stream.read().groupBy(F.window("ts", "10 seconds"), "k").agg(F.count("*"), F.sum("v"))
    writer = counts.writeStream.option("checkpointLocation", str(stream.folder / "checkpoint"))
    query = writer.foreachBatch(lambda batch, _: rows.extend(batch.collect())).trigger(availableNow=True).start()
    query.awaitTermination(900)
    return pyslash.progress(query)


def expected(stream: Stream) -> list[Any]:
    return stream.expected(F.window("ts", "10 seconds"), [F.col("k")], [F.count("*"), F.sum("v")])


@pytest.mark.parametrize("ingest", ["rows", pytest.param("files", marks=pytest.mark.nightly)])
def test_state_larger_than_its_arena_gives_the_same_rows(stream: Stream, ingest: str) -> None:
    stream.spark.conf.set("spark.slash.ingest", ingest)
    rows: list[Any] = []
    figures = run(stream, rows)
    assert list(differences(rows, expected(stream), 1)) == []
    assert len(rows) == KEYS * BATCHES
    assert max(one["spilled_bytes"] for one in figures) > ARENA_BYTES / 4
    assert sum(one["bytes_read"].get("tcp", 0) for one in figures) > 0
    assert sum(one["recoveries"] for one in figures) == 0
    assert not list(stream.folder.glob("pyslash-spill-*"))


@pytest.mark.nightly
def test_past_the_cap_the_batch_fails_and_a_higher_one_lets_it_go_on(stream: Stream) -> None:
    stream.spark.conf.set("spark.slash.spill.maxBytes", "64k")
    rows: list[Any] = []
    with pytest.raises(StreamingQueryException, match=r"spark\.slash\.spill\.maxBytes=65536"):
        run(stream, rows)
    assert rows == []
    stream.spark.conf.set("spark.slash.spill.maxBytes", "1g")
    figures = run(stream, rows)  # what the checkpoint holds has no room in the arena, either
    assert figures[0]["restored_files"] > 0
    assert list(differences(rows, expected(stream), 1)) == []
