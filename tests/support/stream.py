"""Running a streaming query to its end over given micro-batches, on pyslash and on plain Spark."""

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
from pyspark.sql import Column, DataFrame, Row, SparkSession

import pyslash

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Stream:
    """Micro-batches of rows in one folder, one file each, read in their order. A task reads at least `rows_a_task`."""

    spark: SparkSession
    folder: Path
    schema: pa.Schema
    delay_seconds: int
    rows_a_task: int = 500
    batches: list[pa.Table] = field(default_factory=list)

    def add(self, rows: pa.Table) -> None:
        """Append a micro-batch."""
        path = self.folder / "in" / f"{len(self.batches):04d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name("." + path.name)
        pq.write_table(rows.cast(self.schema), hidden, row_group_size=self.rows_a_task)
        in_order(hidden, len(self.batches))
        hidden.rename(path)
        self.batches.append(rows)

    def read(self) -> DataFrame:
        """The stream with its watermark."""
        schema = self.spark.read.parquet(str(self.folder / "in")).schema
        source = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        return source.withWatermark("ts", f"{self.delay_seconds} seconds")

    def expected(self, window: Column, keys: Sequence[Column], aggregates: Sequence[Column]) -> list[Row]:
        """The rows that plain Spark's own streaming gives by the end of the stream."""
        batches = self.expected_batches(lambda rows: rows.groupBy(window, *keys).agg(*aggregates))
        return [row for batch in batches for row in batch]

    def expected_batches(self, query: Callable[[DataFrame], DataFrame], output: str = "append") -> list[list[Row]]:
        """What plain Spark's own streaming gives in each micro-batch."""
        batches: list[list[Row]] = []
        conf = self.spark.conf
        mode = conf.get("spark.slash.mode", "auto")
        conf.set("spark.slash.mode", "off")
        try:
            running = (
                query(self.read())
                .writeStream.outputMode(output)
                .foreachBatch(lambda batch, _: batches.append(batch.collect()))
                .trigger(availableNow=True)
                .start()
            )
            running.awaitTermination()
        finally:
            conf.set("spark.slash.mode", mode)
        return batches


@dataclass
class Outcome:
    """What a finished query gave."""

    rows: list[Any]
    batches: list[list[Any]]
    progress: list[dict[str, Any]]
    spark_progress: list[Any]


def run(
    df: DataFrame, folder: Path, output: str = "append", after: Callable[[int], object] = lambda _: None, **conf: str
) -> Outcome:
    """Run a streaming DataFrame on pyslash until its input ends; the conf holds for this query only.

    `after` is told the number of each micro-batch, once the sink has its rows.
    """
    spark = df.sparkSession
    pyslash.enable(spark)
    batches: list[list[Any]] = []
    settings = {"spark.slash.mode": "require", **{f"spark.slash.{name}": value for name, value in conf.items()}}
    for name, value in settings.items():
        spark.conf.set(name, value)

    def sink(rows: DataFrame, epoch: int) -> None:
        batches.append(rows.collect())
        after(epoch)

    try:
        query = (
            df.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
            .outputMode(output)
            .foreachBatch(sink)
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
    """Where two results differ: rows are (window, keys..., values...); floats may by 1e-9, relative, or by 1e-12."""
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
        return a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    return type(a) is type(b) and bool(a == b)


def seconds(value: float) -> datetime:
    """A time of day zero."""
    return EPOCH + timedelta(seconds=value)


Make = Callable[[DataFrame], DataFrame]
