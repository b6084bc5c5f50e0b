"""One stream over a workload's files, inside a Spark engine's process: timed, its emitted rows kept for the oracle."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from eval.emitted import Emitted, EmittedRows, sink
from eval.refusal import CannotRunError
from eval.workloads.base import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

START_TO_END_SECONDS = 3600
MOST_DIFFERENCES = 10
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
        progress = query.recentProgress
    read = sum(entry["numInputRows"] for entry in progress)
    if read != workload.reads * workload.rows:
        raise RuntimeError(f"{engine.name} read {read} of {workload.reads * workload.rows} rows")
    moved = {"shuffle": _shuffled_bytes(spark) - shuffled}
    phases = Counter[str]()
    for entry in progress:
        phases.update(entry["durationMs"])
    executed = [entry for entry in progress if "addBatch" in entry["durationMs"]]
    figures = {
        "rows": workload.rows,
        "seconds": seconds,
        "rows_per_second": workload.rows / seconds,
        "batch_ms": [entry["durationMs"]["triggerExecution"] for entry in executed],
        # A micro-batch without input is Spark's way to emit what the last watermark closed.
        "input_batch_ms": [entry["durationMs"]["triggerExecution"] for entry in executed if entry["numInputRows"]],
        "spark_ms": dict(phases),
        "moved_bytes": moved,
    }
    return figures | (slash_figures(query, moved, workload) if engine.slash else {}), emitted


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


def slash_figures(query: StreamingQuery, moved: dict[str, int], workload: Workload) -> dict[str, Any]:
    """Those of pyslash's own progress; what owners and merges have read is added to `moved`, by transport.

    Raises:
        RuntimeError: the query has state, and pyslash had none of it.
    """
    import pyslash

    epochs = pyslash.progress(query)
    if workload.has_state and not epochs:
        raise RuntimeError(f"{workload.query_name} ran on plain Spark: no epoch of it was pyslash's")
    for epoch in epochs:
        for transport, size in [*epoch["bytes_shuffled"].items(), *epoch["bytes_read"].items()]:
            moved[transport] = moved.get(transport, 0) + size
    return {
        "epochs": len(epochs),
        "pinned_bytes": max((epoch["pinned_bytes"] for epoch in epochs), default=0),
        "late_rows": sum(epoch["late_rows"] for epoch in epochs),
        "groups": sum(epoch["groups"] for epoch in epochs),
        "ingest": sorted({epoch["ingest"] for epoch in epochs if epoch["ingest"]}),
        **{name: sum(epoch[name] for epoch in epochs) for name in (*PHASES, *TASK_TIMES)},
    }
