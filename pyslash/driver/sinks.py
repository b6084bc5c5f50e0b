"""The sink of an epoch's result: the job's function, or Spark's own sink, made and written by Spark's own code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from pyslash.driver.coverage_check import Checkpoint
from pyslash.errors import RowBridgeUnavailableError
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered
from pyslash.spark.failure import JobFunctionError
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.writer import RefusedBySpark, WriterSettings

FUNCTION = "_slash_function"  # the attribute of a writer that keeps what its `foreachBatch` was given


class Sink(Protocol):
    """Takes the result of one epoch. Called again with the same rows when Spark replays the epoch.

    `repeats`: an epoch that has failed may be written again in the same run.
    """

    repeats: ClassVar[bool]

    def write(self, result: DataFrame, epoch: int) -> int | None:
        """Write the epoch's rows; how many, where the sink counts them."""


@dataclass(frozen=True)
class ForeachBatchSink:
    """The job's own function, called once for an epoch in a run."""

    repeats: ClassVar[bool] = False
    function: Callable[[DataFrame, int], None]

    def write(self, result: DataFrame, epoch: int) -> None:
        """Call it, as Spark would.

        Raises:
            JobFunctionError: the function has raised something.
        """
        try:
            self.function(result, epoch)
        except Exception as error:
            here = error.__traceback__
            raise JobFunctionError(error.with_traceback(here and here.tb_next)) from error

    def started(self, query: StreamingQuery) -> None:
        """Nothing is to be done."""


@dataclass(frozen=True)
class SparkSink:
    """A sink of Spark's: files, a table, memory, console, Kafka, or any other data source that streams can write to."""

    repeats: ClassVar[bool] = True
    java: Any
    """The JVM's `JobSink`."""

    def write(self, result: DataFrame, epoch: int) -> int | None:
        """Write one micro-batch as Spark does; the sink skips an epoch that it already has, as far as it knows."""
        rows = int(self.java.write(epoch, result._jdf))
        return rows if rows >= 0 else None

    def started(self, query: StreamingQuery) -> None:
        """The rows of a memory sink become the view of the query's name."""
        self.java.started(query.name)


def open_sink(
    writer: DataStreamWriter, path: str | None = None, table: str | None = None
) -> ForeachBatchSink | SparkSink:
    """The sink that the writer's `start(path)` or `toTable(table)` would write to; a missing table is created.

    `started` has to be called on it once the query runs.

    Raises:
        RefusedBySpark: Spark's own start must be called, and will raise.
        PySparkException: Spark's own error, for what it refuses when it makes the sink.
        Uncovered: Spark keeps this sink.
    """
    settings = WriterSettings.of(writer)
    if table is None and settings.source == "foreachBatch":
        return _function(writer, settings)
    _check_checkpoint(writer, settings)
    try:
        bridge = JvmBridge(writer._spark).java
    except RowBridgeUnavailableError as error:
        raise Uncovered(f"the sink {settings.source} needs pyslash's jar: {error}") from error
    java = bridge.openSink(writer._jwrite, path) if table is None else bridge.openTable(writer._jwrite, table)
    return SparkSink(java)


def _function(writer: DataStreamWriter, settings: WriterSettings) -> ForeachBatchSink:
    if settings.partition_columns:
        raise RefusedBySpark
    function = getattr(writer, FUNCTION, None)
    if function is None:
        raise Uncovered("foreachBatch was called before pyslash was enabled")
    return ForeachBatchSink(function)


def _check_checkpoint(writer: DataStreamWriter, settings: WriterSettings) -> None:
    """Refuse what Spark refuses for a sink: our own query may always have a temporary checkpoint."""
    location = settings.checkpoint(writer._spark)
    if location is None:
        if not settings.may_be_temporary(writer._spark):
            raise RefusedBySpark
    elif (
        settings.source == "memory"
        and settings.output_mode is not OutputMode.COMPLETE
        and Checkpoint(writer._spark, location).has_offsets
    ):
        raise RefusedBySpark
