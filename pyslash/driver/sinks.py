"""The sink of an epoch's result: Spark's own, which it has made for the query, or the job's function behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pyspark.sql import DataFrame

from pyslash.spark.failure import JobFunctionError
from pyslash.units import Epoch


class Sink(Protocol):
    """Takes the result of one epoch. Called again with the same rows when Spark replays the epoch.

    `repeats`: an epoch that has failed may be written again in the same run.
    """

    repeats: ClassVar[bool]

    def write(self, result: DataFrame, epoch: Epoch) -> int | None:
        """Write the epoch's rows; how many, where the sink counts them."""


@dataclass(frozen=True)
class SparkSink:
    """A sink of Spark's: files, a table, memory, console, Kafka, or any other data source that streams can write to."""

    repeats: ClassVar[bool] = True
    java: Any
    """The JVM's `JobSink`."""

    def write(self, result: DataFrame, epoch: Epoch) -> int | None:
        """Write one micro-batch as Spark does; the sink skips an epoch that it already has, as far as it knows."""
        rows = int(self.java.write(epoch, result._jdf))
        return rows if rows >= 0 else None


@dataclass(frozen=True)
class FunctionSink:
    """The function of the job's `foreachBatch`, called once for an epoch in a run, in whatever process it is."""

    repeats: ClassVar[bool] = False
    java: Any
    """The JVM's `JobSink`."""

    def write(self, result: DataFrame, epoch: Epoch) -> None:
        """Call it, as Spark would.

        Raises:
            JobFunctionError: the function has raised something.
        """
        try:
            self.java.write(epoch, result._jdf)
        except Exception as error:
            raise JobFunctionError(error) from error


OpenSink = FunctionSink | SparkSink


def sink_of(java: Any) -> OpenSink:
    """By the JVM's `JobSink`."""
    return FunctionSink(java) if java.isFunction() else SparkSink(java)
