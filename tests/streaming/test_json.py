"""JSON from files into windows: the rows, the watermarks and the figures of each micro-batch are plain Spark's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.record_stream import SCHEMA, by_a_time_of_its_own, by_fields, compare, events, pages_of, write


@pytest.mark.parametrize("query", [by_fields, by_a_time_of_its_own])
def test_json_from_text_files(spark: SparkSession, tmp_path: Path, query: Callable[[DataFrame], DataFrame]) -> None:
    """A file a micro-batch."""
    write(tmp_path / "in", "txt", events)
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(tmp_path / "in"))
    compare(query(lines.withColumn("partition", F.lit(0))), tmp_path)


def test_json_files(spark: SparkSession, tmp_path: Path) -> None:
    """The JSON source; its parser passes over records by the filters that Spark has pushed down to it."""
    write(tmp_path / "in", "txt", events)
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    chosen = rows.where("kind in ('view', 'click') and value is not null").withWatermark("at", "5 seconds")
    grouped = chosen.groupBy(F.window("at", "4 seconds"), "key")
    compare(grouped.agg(F.count("*"), F.sum("value"), F.max("text"), F.sum("deep.number")), tmp_path)


@pytest.mark.parametrize("width", ["variable", "fixed"])
def test_pages_of_json_files(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    """Columns go to the accumulator a page at a time, in their order, but for pages with records left to Spark."""
    in_pages = pages_of(monkeypatch)
    write(tmp_path / "in", "txt", events, plain=6000)
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    grouped = rows.withWatermark("at", "5 seconds").groupBy(
        F.window("at", "4 seconds"), "key" if width == "variable" else "value"
    )
    texts = (F.first("kind"), F.last("kind"), F.max("text")) if width == "variable" else ()
    compare(grouped.agg(F.count("*"), F.sum("value"), *texts), tmp_path)
    assert len(in_pages) == 3
    assert all(1000 < count < 7000 for count in in_pages)
