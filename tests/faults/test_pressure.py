"""State that is larger than its arena: the query spills and goes on, or fails before its commit with the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.spark.session import changed
from tests.support.little_room import ARENA_BYTES, little_room, long_lived
from tests.support.stream import Stream, differences

KEYS, BATCHES = 20_000, 10  # a batch's block takes half a megabyte


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Iterator[Stream]:
    made = long_lived(spark, tmp_path, KEYS, BATCHES)
    with little_room(spark, tmp_path), changed(spark, {"spark.slash.mode": "require"}):
        yield made


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
    rows: list[Any] = []
    with changed(stream.spark, {"spark.slash.ingest": ingest}):
        figures = run(stream, rows)
    assert list(differences(rows, expected(stream), 1)) == []
    assert len(rows) == KEYS * BATCHES
    assert max(one["spilled_bytes"] for one in figures) > ARENA_BYTES / 4
    assert sum(one["bytes_read"].get("tcp", 0) for one in figures) > 0
    assert sum(one["recoveries"] for one in figures) == 0
    assert not list(stream.folder.glob("pyslash-spill-*"))


@pytest.mark.nightly
def test_past_the_cap_the_batch_fails_and_a_higher_one_lets_it_go_on(stream: Stream) -> None:
    rows: list[Any] = []
    said = pytest.raises(StreamingQueryException, match=r"spark\.slash\.spill\.maxBytes=65536")
    with changed(stream.spark, {"spark.slash.spill.maxBytes": "64k"}), said:
        run(stream, rows)
    assert rows == []
    with changed(stream.spark, {"spark.slash.spill.maxBytes": "1g"}):
        figures = run(stream, rows)  # what the checkpoint holds has no room in the arena, either
    assert figures[0]["restored_files"] > 0
    assert list(differences(rows, expected(stream), 1)) == []
