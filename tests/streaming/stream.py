"""Running a streaming query to its end over given micro-batches, and the oracle: Spark batch over the same rows.

The late-row rule is modelled here in a few lines of plain Python: the watermark that each batch starts with. The oracle
then counts a (row, window) pair iff the window ended after the watermark that the batch before started with.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Stream:
    """Micro-batches of rows in one folder, one file each, read in their order."""

    spark: SparkSession
    folder: Path
    schema: pa.Schema
    delay_seconds: int
    batches: list[pa.Table] = field(default_factory=list)

    def add(self, rows: pa.Table) -> None:
        """Append a micro-batch."""
        path = self.folder / "in" / f"{len(self.batches):04d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name("." + path.name)
        pq.write_table(rows.cast(self.schema), hidden, row_group_size=500)  # a row group is one task's
        in_order(hidden, len(self.batches))
        hidden.rename(path)
        self.batches.append(rows)

    def read(self) -> DataFrame:
        """The stream with its watermark."""
        schema = self.spark.read.parquet(str(self.folder / "in")).schema
        source = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        return source.withWatermark("ts", f"{self.delay_seconds} seconds")

    def watermarks(self) -> list[int]:
        """The watermark (microseconds) that each batch starts with, and the one after the last."""
        marks = [0]
        for rows in self.batches:
            times = [time for time in rows["ts"].cast(pa.int64()).to_pylist() if time is not None]
            # Spark keeps event-time statistics in milliseconds.
            latest = max((time // 1000 * 1000 - self.delay_seconds * 1_000_000 for time in times), default=0)
            marks.append(max(marks[-1], latest))
        return marks

    def oracle(self, window: Column, keys: Sequence[Column], aggregates: Sequence[Column]) -> DataFrame:
        """What windows that the stream has closed must hold."""
        *starts, end = self.watermarks()
        frames = []
        for index, mark in enumerate([0, *starts[:-1]]):
            batch = self.spark.read.parquet(str(self.folder / "in" / f"{index:04d}.parquet"))
            windowed = batch.select(window.alias("window"), "*")
            frames.append(windowed.where(F.col("window.end") > F.timestamp_micros(F.lit(mark))))
        rows = frames[0]
        for frame in frames[1:]:
            rows = rows.unionByName(frame)
        return (
            rows.where(F.col("window.end") <= F.timestamp_micros(F.lit(end))).groupBy("window", *keys).agg(*aggregates)
        )


@dataclass
class Outcome:
    """What a finished query gave."""

    rows: list[Any]
    batches: list[list[Any]]
    progress: list[dict[str, Any]]
    spark_progress: list[Any]


def run(df: DataFrame, folder: Path, **conf: str) -> Outcome:
    """Run a streaming DataFrame on pyslash until its input ends; the conf holds for this query only."""
    spark = df.sparkSession
    pyslash.enable(spark)
    batches: list[list[Any]] = []
    settings = {"spark.slash.mode": "require", **{f"spark.slash.{name}": value for name, value in conf.items()}}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        query = (
            df.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
            .foreachBatch(lambda rows, epoch: batches.append(rows.collect()))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    finally:
        for name in settings:
            spark.conf.unset(name)
        pyslash.disable()
    return Outcome([row for batch in batches for row in batch], batches, pyslash.progress(query), query.recentProgress)


def in_order(path: Path, batch: int) -> None:
    """Date a file by its micro-batch: the file source reads in the order of modification times, which may be equal."""
    os.utime(path, (1_000_000_000 + batch,) * 2)


def differences(found: Sequence[Any], expected: Sequence[Any], keys: int) -> Iterator[str]:
    """Where two results differ: rows are (window, keys..., values...); floating values may differ by 1e-9 relative."""
    left, right = _by_key(found, keys), _by_key(expected, keys)
    for name, rows in (("found", found), ("expected", expected)):
        if len(rows) != len(_by_key(rows, keys)):
            yield f"{name} has a group twice"
    for key in left.keys() | right.keys():
        if key not in left or key not in right:
            yield f"{key}: only {'expected' if key not in left else 'found'}"
        elif not all(_same(a, b) for a, b in zip(left[key], right[key], strict=True)):
            yield f"{key}: found {left[key]}, expected {right[key]}"


def _by_key(rows: Sequence[Any], keys: int) -> dict[Any, tuple[Any, ...]]:
    return {tuple(map(_hashable, row[: keys + 1])): tuple(row[keys + 1 :]) for row in rows}


def _hashable(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b or math.isclose(a, b, rel_tol=1e-9)
    return type(a) is type(b) and bool(a == b)


def seconds(value: float) -> datetime:
    """A time of day zero."""
    return EPOCH + timedelta(seconds=value)


Make = Callable[[DataFrame], DataFrame]
