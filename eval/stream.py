"""One stream over a workload's files, inside a Spark engine's process: timed, its emitted rows kept for the oracle."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from eval.emitted import Emitted, EmittedRows, sink
from eval.refusal import CannotRunError
from eval.steady import Entry, Steady, bounds, executed
from eval.workloads.base import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

START_TO_END_SECONDS = 3600
MOST_DIFFERENCES = 10
POLL_SECONDS = 3.0
# Of `pyslash.progress`: what the driver does in turn, within Spark's addBatch; and times of tasks, added up.
PHASES = ("update_ms", "checkpoint_ms", "replica_ms", "commit_ms", "late_ms", "merge_ms", "sink_ms")
TASK_TIMES = ("update_task_ms", "merge_task_ms", "sink_task_ms")


class Streamed(Protocol):
    """What a stream asks of its engine; `eval.engines.spark.SparkEngine` says what each is."""

    @property
    def name(self) -> str: ...
    @property
    def slash(self) -> bool: ...
    @property
    def real_time(self) -> bool: ...
    @property
    def aggregates(self) -> bool: ...
    @property
    def keeps(self) -> bool: ...
    def result(self, workload: Workload, spark: SparkSession, rows: DataFrame, folder: Path) -> DataFrame: ...


def run(
    spark: SparkSession, engine: Streamed, workload: Workload, folder: Path
) -> tuple[dict[str, Any], Emitted | None]:
    """Stream all rows. Returns seconds, rows/s and the milliseconds of each micro-batch; and what was emitted.

    Raises:
        CannotRunError: Spark refuses the query in this engine's mode.
        RuntimeError: the stream did not read every row, or an engine of pyslash left its state to Spark.
    """
    shuffled = _shuffled_bytes(spark)
    result = engine.result(workload, spark, workload.stream(spark, folder), folder)
    emitted = sink(result.schema, folder.parent) if engine.keeps else None
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="checkpoint-", dir=folder.parent) as checkpoint:
        writer = result.writeStream.foreachBatch(emitted.add) if emitted else result.writeStream.format("noop")
        query = _start(spark, engine, writer.option("checkpointLocation", checkpoint), workload)
        _await(query, engine, workload.rows)
        seconds = time.perf_counter() - began
        entries = executed(query.recentProgress)
    read = sum(entry["numInputRows"] for entry in entries)
    if read != workload.reads * workload.rows:
        raise RuntimeError(f"{engine.name} read {read} of {workload.reads * workload.rows} rows")
    figures = _figures(query, engine, workload, entries, seconds)
    figures["moved_bytes"]["shuffle"] = _shuffled_bytes(spark) - shuffled
    return figures, emitted


def steady(spark: SparkSession, engine: Streamed, workload: Workload, folder: Path, rule: Steady) -> dict[str, Any]:
    """Stream until the steady part was long enough, into a sink that drops what comes: the figures of that part.

    Raises:
        RuntimeError: the stream had no steady part, or an engine of pyslash left its state to Spark.
    """
    result = engine.result(workload, spark, workload.stream(spark, folder), folder)
    with tempfile.TemporaryDirectory(prefix="checkpoint-", dir=folder.parent) as checkpoint:
        writer = result.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = _start(spark, engine, writer, workload)
        wait = rule.warm_s + rule.seconds
        while not query.awaitTermination(wait) and not rule.is_over(executed(query.recentProgress)):
            wait = POLL_SECONDS
        entries = executed(query.recentProgress)
        query.stop()
    part = [entry for entry in rule.part(entries) if entry["numInputRows"]]
    if not part:
        raise RuntimeError(f"{engine.name} was through {len(entries)} micro-batches before it was warm")
    begin, end = bounds(part)
    figures = _figures(query, engine, workload, part, end - begin)
    if engine.slash and workload.has_state and figures["epochs"] != len(part):
        raise RuntimeError(f"{workload.query_name}: {len(part)} micro-batches, pyslash had {figures['epochs']} of them")
    return figures | {"part": (begin, end)}


def _figures(
    query: StreamingQuery, engine: Streamed, workload: Workload, entries: list[Entry], seconds: float
) -> dict[str, Any]:
    rows = sum(entry["numInputRows"] for entry in entries) // workload.reads
    phases = Counter[str]()
    for entry in entries:
        phases.update(entry["durationMs"])
    return {
        "rows": rows,
        "seconds": seconds,
        "rows_per_second": rows / seconds,
        "batch_ms": [entry["durationMs"]["triggerExecution"] for entry in entries],
        # A micro-batch without input is Spark's way to emit what the last watermark closed.
        "input_batch_ms": [entry["durationMs"]["triggerExecution"] for entry in entries if entry["numInputRows"]],
        "spark_ms": dict(phases),
        "moved_bytes": {},
        **(slash_figures(query, workload, {entry["batchId"] for entry in entries}) if engine.slash else {}),
    }


def differences(spark: SparkSession, engine: Streamed, workload: Workload, folder: Path) -> list[str]:
    """Run the stream once more with its rows written as they are: the first that are not the oracle's, in words."""
    emitted = EmittedRows(folder.parent)
    try:
        with tempfile.TemporaryDirectory(prefix="checkpoint-", dir=folder.parent) as checkpoint:
            result = engine.result(workload, spark, workload.stream(spark, folder), folder)
            writer = result.writeStream.foreachBatch(emitted.add).option("checkpointLocation", checkpoint)
            _await(_start(spark, engine, writer, workload), engine, workload.rows)
        return emitted.differences(folder, workload.identity, MOST_DIFFERENCES)
    finally:
        emitted.close()


def _start(spark: SparkSession, engine: Streamed, writer: DataStreamWriter, workload: Workload) -> StreamingQuery:
    if engine.slash:
        # A query without state is nobody's but Spark's, which `require` would refuse.
        spark.conf.set("spark.slash.mode", "require" if workload.has_state else "auto")
    if engine.aggregates:
        writer = writer.outputMode(workload.output_mode)
    if not engine.real_time:
        return writer.trigger(availableNow=True).start()
    try:
        return writer.outputMode("update").trigger(realTime="5 seconds").start()
    except Exception as error:  # Spark's refusal, or a PySpark before 4.1, which has no such trigger
        raise CannotRunError(str(error).splitlines()[0]) from None


def _await(query: StreamingQuery, engine: Streamed, rows: int) -> None:
    """Until the stream has ended, or, of a stream that has no end, until it has read every row."""
    deadline = time.monotonic() + START_TO_END_SECONDS
    try:
        while not query.awaitTermination(1 if engine.real_time else START_TO_END_SECONDS):
            if engine.real_time and sum(entry["numInputRows"] for entry in query.recentProgress) >= rows:
                query.stop()
                return
            if time.monotonic() > deadline:
                query.stop()
                raise RuntimeError(f"the stream was still running after {START_TO_END_SECONDS} s")
    except Exception as error:
        if engine.real_time and "REAL_TIME" in str(error):
            raise CannotRunError(str(error).splitlines()[0]) from None
        raise


def _shuffled_bytes(spark: SparkSession) -> int:
    """What all executors have written for shuffles since the application began."""
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    return sum(int(executors.apply(i).totalShuffleWrite()) for i in range(executors.size()))


def slash_figures(query: StreamingQuery, workload: Workload, batches: Container[int]) -> dict[str, Any]:
    """Those of pyslash's own progress, of these micro-batches; `moved_bytes` by owners and merges, by transport.

    Raises:
        RuntimeError: the query has state, and pyslash had none of it.
    """
    import pyslash

    epochs = [epoch for epoch in pyslash.progress(query) if epoch["epoch"] in batches]
    if workload.has_state and not epochs:
        raise RuntimeError(f"{workload.query_name} ran on plain Spark: no epoch of it was pyslash's")
    moved = Counter[str]()
    for epoch in epochs:
        moved.update(epoch["bytes_shuffled"])
        moved.update(epoch["bytes_read"])
    return {
        "moved_bytes": dict(moved),
        "epochs": len({epoch["epoch"] for epoch in epochs}),
        "pinned_bytes": max((epoch["pinned_bytes"] for epoch in epochs), default=0),
        "late_rows": sum(epoch["late_rows"] for epoch in epochs),
        "groups": sum(epoch["groups"] for epoch in epochs),
        "ingest": sorted({epoch["ingest"] for epoch in epochs if epoch["ingest"]}),
        **{name: sum(epoch[name] for epoch in epochs) for name in (*PHASES, *TASK_TIMES)},
    }
