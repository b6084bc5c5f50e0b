"""CSV files into windows: the rows, the watermarks and the figures of each micro-batch are plain Spark's."""

from __future__ import annotations

import bz2
import random
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.csv_records import Records
from tests.support.record_stream import compare, in_time, pages_of, write
from tests.support.stream import in_order

HEADER = b"at,key,kind,value,text\r\n"
SCHEMA = "at timestamp, key string, kind string, value int, text string"


def test_csv_files(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's parser passes over lines by the filters that are pushed down to it; one column is not read."""
    write_events(tmp_path / "in")
    chosen = read(spark, tmp_path).where("kind in ('view', 'click') and value is not null")
    grouped = chosen.withWatermark("at", "5 seconds").groupBy(F.window("at", "4 seconds"), "key")
    compare(grouped.agg(F.count("*"), F.sum("value")), tmp_path)


@pytest.mark.parametrize("width", ["variable", "fixed"])
def test_pages_of_csv_files(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    """Columns go to the accumulator a page at a time, in the plan's order, but for pages with lines left to Spark.

    With `variable` all columns are read, in another order than the files have them.
    """
    in_pages = pages_of(monkeypatch)
    write_events(tmp_path / "in", plain=12_000)
    grouped = (
        read(spark, tmp_path)
        .withWatermark("at", "5 seconds")
        .groupBy(F.window("at", "4 seconds"), "key" if width == "variable" else "value")
    )
    texts = (F.max("text"), F.first("kind"), F.last("kind")) if width == "variable" else ()
    compare(grouped.agg(F.sum("value"), F.count("*"), *texts), tmp_path)
    assert len(in_pages) == 3
    assert all(1000 < count < 13_000 for count in in_pages)


def test_files_that_only_spark_divides(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come row by row where others come in pages, their columns in the same order."""
    in_pages = pages_of(monkeypatch)
    write_events(tmp_path / "in", plain=12_000)
    path = tmp_path / "in" / "1.csv"
    path.with_suffix(".csv.bz2").write_bytes(bz2.compress(path.read_bytes()))
    path.unlink()
    in_order(path.with_suffix(".csv.bz2"), 1)
    rows = read(spark, tmp_path).withWatermark("at", "5 seconds").groupBy(F.window("at", "4 seconds"), "key")
    compare(rows.agg(F.sum("value"), F.max("text"), F.last("kind")), tmp_path)
    assert [count > 0 for count in in_pages] == [True, False, True]


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """A file a micro-batch."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.option("header", "true").csv(str(folder / "in"))


def write_events(folder: Path, plain: int = 0) -> None:
    """See `write`: lines of CSV below a header."""
    write(folder, "csv", events, plain, HEADER)


def events(seed: int, count: int, start: int, share: float) -> list[bytes]:
    """Lines whose times run from `start` (seconds)."""

    def event(draw: random.Random, number: int, at: str) -> bytes:
        kind = draw.choice(["view", "click", "ünknown", ""])
        key, value, text = f"user-{draw.randrange(50)}", draw.randrange(-1000, 1000), f"{number}, {kind}{'x' * 20}"
        return f'{at},{key},{kind},{value},"{text}"'.encode()

    return in_time(seed, count, start, share, event, Records(seed).record)
