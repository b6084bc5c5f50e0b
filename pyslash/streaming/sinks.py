"""Where an epoch's result goes: the sinks that pyslash takes over, each handing the rows to Spark's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import DataFrame

from pyslash.plan.reasons import Uncovered

FILE_FORMATS = ("parquet", "json", "csv")


class Sink(Protocol):
    """Takes the result of one epoch. Called again with the same rows when Spark replays the epoch.

    `repeats`: an epoch that has failed may be written again in the same run.
    """

    repeats: bool

    def write(self, result: DataFrame, epoch: int) -> None:
        """Write the epoch's rows."""


@dataclass(frozen=True)
class ForeachBatchSink:
    """The job's own function, called once for an epoch in a run."""

    repeats = False
    function: Callable[[DataFrame, int], None]

    def write(self, result: DataFrame, epoch: int) -> None:
        """Call it, as Spark would."""
        self.function(result, epoch)


@dataclass(frozen=True)
class NoopSink:
    """Computes every row and keeps none."""

    repeats = True

    def write(self, result: DataFrame, epoch: int) -> None:
        """Run the query to its end."""
        result.write.format("noop").mode("overwrite").save()


@dataclass(frozen=True)
class ConsoleSink:
    """Prints rows as Spark's console sink does; `rows` and `truncate` are its options."""

    repeats = True

    rows: int
    truncate: bool

    def write(self, result: DataFrame, epoch: int) -> None:
        """Print the batch on the JVM's standard output, where Spark's own sink prints."""
        out = result.sparkSession._jvm.java.lang.System.out
        rule = "-" * 43
        text = result._jdf.showString(self.rows, 20 if self.truncate else 0, False)
        out.println(f"{rule}\nBatch: {epoch}\n{rule}\n{text}")


@dataclass
class FileSink:
    """Spark's own `FileStreamSink`: its `_spark_metadata` log makes files exactly once."""

    repeats = True

    format: str
    options: dict[str, str]
    partition_columns: list[str]
    _sink: Any = None

    def write(self, result: DataFrame, epoch: int) -> None:
        """Add the batch; Spark's sink skips an epoch that it has already written."""
        if self._sink is None:
            self._sink = self._create(result)
        self._sink.addBatch(epoch, result._jdf)

    def _create(self, result: DataFrame) -> Any:
        jvm: Any = result.sparkSession._jvm
        none = jvm.scala.Option.empty()
        no_strings = jvm.PythonUtils.toSeq([])
        source = jvm.org.apache.spark.sql.execution.datasources.DataSource(
            result.sparkSession._jsparkSession,
            self.format,
            no_strings,
            none,
            jvm.PythonUtils.toSeq(self.partition_columns),
            none,
            jvm.PythonUtils.toScalaMap(self.options),
            none,
            *([none] if _has_user_source(jvm) else []),
        )
        append = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
        takes_schema = any(
            method.getName() == "createSink" and method.getParameterCount() == 2
            for method in source.getClass().getMethods()
        )
        return source.createSink(append, result._jdf.schema()) if takes_schema else source.createSink(append)


def _has_user_source(jvm: Any) -> bool:
    """Whether `DataSource` takes a ninth argument, as it does in later releases."""
    found = jvm.java.lang.Class.forName("org.apache.spark.sql.execution.datasources.DataSource")
    return max(int(constructor.getParameterCount()) for constructor in found.getConstructors()) > 8


def sink_of(
    source: str, options: dict[str, str], partition_columns: list[str], function: Callable[..., None] | None
) -> Sink:
    """The sink that a `DataStreamWriter` asks for.

    Raises:
        Uncovered: Spark keeps this sink.
    """
    if source == "foreachbatch" and function is not None:
        return ForeachBatchSink(function)
    if source == "noop":
        return NoopSink()
    if source == "console":
        return ConsoleSink(int(options.get("numrows", "20")), options.get("truncate", "true").lower() != "false")
    if source in FILE_FORMATS:
        if "path" not in options:
            raise Uncovered(f"the {source} sink has no path")
        return FileSink(source, options, partition_columns)
    raise Uncovered(f"the sink {source} is not covered")
