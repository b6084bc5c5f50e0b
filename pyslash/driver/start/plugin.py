"""The door: the JVM asks about every query that is about to start, in whatever language it is written.

`io.pyslash.plugin.DriverSide` asks the job's own Python if that has enabled pyslash, else `pyslash.side_car`.
"""

from __future__ import annotations

import json
import traceback
from contextlib import suppress
from functools import cached_property
from typing import Any

from py4j.clientserver import ClientServer
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from pyslash.driver.sinks import OpenSink, sink_of
from pyslash.driver.start import hook
from pyslash.errors import ConfigError, RowBridgeUnavailableError, SlashError
from pyslash.plan.output_mode import OutputMode
from pyslash.spark import own_errors
from pyslash.spark.failure import EpochCallback
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.writer import WriterSettings

PLUGIN = "io.pyslash.SlashPlugin"
_answers: SparkContext | None = None
"""The application whose JVM asks this process."""


class PendingStart:
    """A query that the JVM is about to start."""

    def __init__(self, context: SparkContext, java: Any) -> None:
        """`java`: the JVM's `PendingQuery`."""
        self._java = java
        self.spark = SparkSession(context, java.session())

    @cached_property
    def rows(self) -> DataFrame:
        """What it writes."""
        return DataFrame(self._java.rows(), self.spark)

    @cached_property
    def settings(self) -> WriterSettings:
        """What the job has set. Spark tells the query's name and its checkpoint beside the options."""
        java = self._java
        told = {"queryName": java.name(), "checkpointLocation": java.checkpoint()}
        options = {str(name): str(value) for name, value in java.options().items()}
        return WriterSettings(
            sink=str(java.sinkName()),
            output_mode=OutputMode(str(java.outputMode()).lower()),
            trigger=java.trigger(),
            options=options | {name: str(value) for name, value in told.items() if value is not None},
        )

    @cached_property
    def sink(self) -> OpenSink:
        """Spark has opened it."""
        return sink_of(self._java.sink())

    def on_spark(self) -> StreamingQuery:
        """With Spark's own arguments."""
        return StreamingQuery(self._java.onSpark())

    def on_pyslash(self, rows: DataFrame, epochs: EpochCallback) -> StreamingQuery:
        """With a sink of ours in the place of the job's."""
        function = self._java.epochs(epochs)
        epochs.bind(function)
        return StreamingQuery(self._java.onSlash(rows._jdf, function))


class PluginCallback:
    """What the JVM asks, as py4j calls it."""

    def __init__(self, context: SparkContext) -> None:
        """`context`: the application's, as this process sees it."""
        self._context = context

    def accept(self, java: Any) -> None:
        """Start the JVM's `PendingQuery`. The name is the Java interface's."""
        try:
            hook.start(PendingStart(self._context, java))
        except SlashError as error:
            words = f"{type(error).__name__}: {error}"
            java.refuseSettings(words) if isinstance(error, ConfigError) else java.refuse(words)
            raise
        except Exception as error:
            java.refuse(told_of_failure(error))  # unless Spark has thrown it
            raise

    class Java:
        """The interface that py4j implements with this class."""

        implements = ("java.util.function.Consumer",)


def told_of_failure(error: Exception) -> str:
    """Of an error that is nobody's answer, so that the JVM can show where it comes from."""
    return f"pyslash has failed by {type(error).__name__}: {error}\n{''.join(traceback.format_exception(error))}"


class FiguresCallback:
    """The figures of a query that this process runs, as py4j asks for them."""

    def apply(self, run: str) -> str | None:
        """Of a run, by its id, as JSON; None if the query is not known here. The name is the Java interface's."""
        found = hook.progress_of_run(run)
        return json.dumps(found.epochs()) if found is not None else None

    class Java:
        """The interface that py4j implements with this class."""

        implements = ("java.util.function.Function",)


def progress_of(query: StreamingQuery) -> list[dict[str, Any]]:
    """The figures of a query that the process beside the driver runs; empty if it does not."""
    spark = SparkSession._instantiatedSession
    if spark is None or not _is_named(spark):
        return []
    figures = _driver(spark).figures(str(query.runId))
    return json.loads(figures) if figures is not None else []


def install(spark: SparkSession) -> None:
    """Have the JVM ask this process about queries of this session, and of those that are made from now on.

    Raises:
        RowBridgeUnavailableError: the jar is missing, or cannot be added; or PySpark does not pin threads.
        UnknownSparkError: this release of Spark lacks what pyslash takes of it by name.
    """
    global _answers
    context = spark.sparkContext
    if not isinstance(context._gateway, ClientServer):
        raise RowBridgeUnavailableError(
            "PYSPARK_PIN_THREAD=false, so that what a query's thread asks is not answered in that thread; leave it out"
        )
    driver = _driver(spark)
    ensure_callback_server_started(context._gateway)
    driver.answer(spark._jsparkSession, PluginCallback(context))
    _answers = context
    own_errors.install()


def pending(writer: DataStreamWriter) -> PendingStart:
    """The query that a writer would start, whatever its mode. Nothing starts, and its sink is neither opened nor made.

    Raises:
        RowBridgeUnavailableError: the jar is missing, or cannot be added.
    """
    spark = writer._spark
    return PendingStart(spark.sparkContext, _driver(spark).pending(spark._jsparkSession, writer._jwrite))


def uninstall() -> None:
    """Have the JVM ask nobody about queries that start from now on."""
    own_errors.uninstall()
    spark = SparkSession._instantiatedSession
    if spark is not None and (_answers is spark.sparkContext or _is_named(spark)):
        with suppress(Py4JError, OSError):  # the JVM has ended
            _driver(spark).disable()


def _is_named(spark: SparkSession) -> bool:
    """Whether the application's settings have named the plugin."""
    named = spark.sparkContext.getConf().get("spark.plugins", "").split(",")
    return PLUGIN in (name.strip() for name in named)


def _driver(spark: SparkSession) -> Any:
    """The JVM's `DriverSide`."""
    return JvmBridge(spark).java.driver(spark.sparkContext._jsc.sc())
