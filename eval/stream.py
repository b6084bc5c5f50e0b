"""One stream over a workload's files, inside an engine's process: timed, or checked against Spark batch."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval.engines import Engine
from eval.workloads.base import WATERMARK_MS, Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

START_TO_END_SECONDS = 3600


@dataclass(frozen=True)
class Checksum:
    """Rows and an order-independent sum over their hashes: equal for equal multisets of rows."""

    rows: int
    hash: int

    def __add__(self, other: Checksum) -> Checksum:
        return Checksum(self.rows + other.rows, self.hash + other.hash)


def checksum(result: DataFrame) -> Checksum:
    """The checksum of all rows of `result`; hashes follow types as well as values."""
    from pyspark.sql import functions as F

    flat = result.select("window.start", "window.end", *[c for c in result.columns if c != "window"])
    total = F.sum(F.xxhash64(*flat.columns).cast("decimal(38,0)"))
    rows, value = flat.agg(F.count("*"), total).collect()[0]
    return Checksum(rows, int(value or 0))


def run(spark: SparkSession, engine: Engine, workload: Workload, folder: Path) -> dict[str, Any]:
    """Stream all rows into a noop sink. Returns seconds, rows/s and the milliseconds of each micro-batch.

    Raises:
        RuntimeError: the stream did not read every row.
    """
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="checkpoint-", dir=folder.parent) as checkpoint:
        writer = _result(spark, engine, workload, folder).writeStream.format("noop")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        _await(query)
        seconds = time.perf_counter() - began
        progress = query.recentProgress
    read = sum(entry["numInputRows"] for entry in progress)
    if read != workload.rows:
        raise RuntimeError(f"{engine.name} read {read} of {workload.rows} rows")
    return {
        "seconds": seconds,
        "rows_per_second": workload.rows / seconds,
        # A micro-batch without input is Spark's way to emit what the last watermark closed.
        "batch_ms": [entry["durationMs"]["triggerExecution"] for entry in progress if entry["numInputRows"]],
        **(_slash_figures(query) if engine.slash else {}),
    }


def check(spark: SparkSession, engine: Engine, workload: Workload, folder: Path) -> tuple[bool, int]:
    """Stream all rows and compare what was emitted with a batch query over them, cut at the last watermark.

    Returns whether they are the same rows, and how many rows the batch query gave.
    """
    emitted = [Checksum(0, 0)]

    def add(result: DataFrame, _: int) -> None:
        emitted[0] += checksum(result)

    with tempfile.TemporaryDirectory(prefix="checkpoint-", dir=folder.parent) as checkpoint:
        writer = _result(spark, engine, workload, folder).writeStream.foreachBatch(add)
        _await(writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start())
    expected = oracle(spark, workload, folder)
    return emitted[0] == expected, expected.rows


def oracle(spark: SparkSession, workload: Workload, folder: Path) -> Checksum:
    """The checksum of every window that the last watermark closed, by Spark's batch aggregation."""
    from pyspark.sql import functions as F

    rows = spark.read.parquet(str(folder / "rows"))
    last = rows.agg(F.unix_micros(F.max(workload.event_time))).collect()[0][0]
    # Spark keeps watermarks in whole milliseconds.
    watermark = F.timestamp_millis(F.lit(last // 1000 - WATERMARK_MS))
    return checksum(workload.query(spark, rows, folder).where(F.col("window.end") <= watermark))


def _result(spark: SparkSession, engine: Engine, workload: Workload, folder: Path) -> DataFrame:
    source = str(folder / "rows")
    stream = spark.readStream.schema(spark.read.parquet(source).schema)
    rows = stream.option("maxFilesPerTrigger", workload.files_per_batch).parquet(source)
    return workload.query(spark, rows, folder) if engine.aggregates else rows


def _await(query: StreamingQuery) -> None:
    if not query.awaitTermination(START_TO_END_SECONDS):
        query.stop()
        raise RuntimeError(f"the stream was still running after {START_TO_END_SECONDS} s")


def _slash_figures(query: StreamingQuery) -> dict[str, Any]:
    import pyslash

    epochs = pyslash.progress(query)
    return {
        "pinned_bytes": max((epoch["pinned_bytes"] for epoch in epochs), default=0),
        "late_rows": sum(epoch["late_rows"] for epoch in epochs),
        **{name: sum(sum(epoch[name].values()) for epoch in epochs) for name in ("bytes_read", "bytes_shuffled")},
        **{name: sum(epoch[name] for epoch in epochs) for name in ("update_ms", "commit_ms", "merge_ms")},
    }
