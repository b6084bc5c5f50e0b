"""Streams over Parquet files of all types, a file a micro-batch, and what Spark and pyslash make of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.stream import in_order, run, seconds

WINDOW = "10 seconds"
Query = Callable[[DataFrame], DataFrame]


def table(batch: int, rows: int = 400) -> pa.Table:
    """Nulls in every column but the key."""
    return pa.table(
        {
            "ts": pa.array(
                [seconds(1000 + 10 * batch + i / rows * 10) if i % 17 else None for i in range(rows)],
                pa.timestamp("us", "UTC"),
            ),
            "k": pa.array([i % 7 for i in range(rows)], pa.int64()),
            "v": pa.array([i if i % 5 else None for i in range(rows)], pa.int32()),
            "s": [f"name {i % 11}" if i % 3 else None for i in range(rows)],
            "b": pa.array([i % 2 == 0 if i % 4 else None for i in range(rows)], pa.bool_()),
            "d": pa.array([date(2024, 1, 1 + i % 20) if i % 6 else None for i in range(rows)], pa.date32()),
            "x": pa.array([float(i) for i in range(rows)], pa.float64()),
            "n": pa.array([Decimal(i) / 4 for i in range(rows)], pa.decimal128(9, 2)),
        }
    )


def write(folder: Path, tables: list[pa.Table], **options: Any) -> Path:
    """A file a batch, of several row groups."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, rows in enumerate(tables):
        path = folder / f"{index}.parquet"
        pq.write_table(rows, path, row_group_size=64, **options)
        in_order(path, index)
    return folder


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """One file a micro-batch, under a watermark."""
    source = spark.readStream.schema(spark.read.parquet(str(folder)).schema).option("maxFilesPerTrigger", 1)
    return source.parquet(str(folder))


def watermarked(rows: DataFrame) -> DataFrame:
    """With the watermark that every query here has."""
    return rows.withWatermark("ts", "1 second")


def counts(rows: DataFrame) -> DataFrame:
    """The aggregation of most tests."""
    return rows.groupBy(F.window("ts", WINDOW), "k").agg(F.count("*"), F.sum("v"), F.max("s"))


def ran(df: DataFrame, folder: Path, **conf: str) -> tuple[list[Any], list[Any], set[str]]:
    """Rows, Spark's progress of the batches that had input, and the paths that these took; by conf, if any."""
    outcome = run(df, folder / "-".join(conf.values()), **conf)
    progress = [entry for entry in outcome.spark_progress if entry["numInputRows"]]
    return sorted(outcome.rows, key=str), progress, {epoch["ingest"] for epoch in outcome.progress} - {"none"}


def same_as_spark(spark: SparkSession, query: Query, folder: Path) -> set[str]:
    """Run it on Spark and on pyslash; rows, watermark and figures have to be Spark's. The paths that were taken."""
    written = write(folder / "in", [table(batch) for batch in range(3)])
    expected, plain, _ = ran(query(stream(spark, written)), folder, mode="off")
    found, ours, paths = ran(query(stream(spark, written)), folder, ingest="files")
    assert len(expected) > 1
    assert [entry["numInputRows"] for entry in ours] == [entry["numInputRows"] for entry in plain]
    for time in ("watermark", "max"):  # Spark's least time and mean take a null for 1970
        assert [entry["eventTime"].get(time) for entry in ours] == [entry["eventTime"].get(time) for entry in plain]
    assert found == expected
    return paths
