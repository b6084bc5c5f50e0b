"""How a micro-batch fails, and what Spark is told of it.

py4j makes a text of whatever comes out of Python, with the traceback of our code. `EpochCallback` has it say what it
is: what the JVM has thrown, as plain Spark would show it, which is also what the job's function has raised; or an error
of ours, in its own words.
"""

from __future__ import annotations

import traceback
from contextlib import suppress
from typing import Any, Protocol

from py4j.java_gateway import JavaObject as Py4JObject
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from pyslash.errors import SlashError
from pyslash.plan.catalyst import JavaObject
from pyslash.spark.py4j_settings import send_at_once
from pyslash.units import Epoch

_OF_PYTHON = "org.apache.spark.api.python.PythonException"


class StoppedError(Exception):
    """The query was stopped while it ran the micro-batch."""


class JobFunctionError(Exception):
    """The job's own function has raised `raised`."""

    def __init__(self, raised: Exception) -> None:
        """`raised`: as Spark's own sink has raised it, which has called the function."""
        super().__init__(str(raised))
        self.raised = raised


class Epochs(Protocol):
    """What runs micro-batches."""

    def __call__(self, batch: DataFrame, epoch: Epoch) -> None:
        """Run one."""


class EpochCallback:
    """What runs the micro-batches of a query that is taken over, as py4j calls it."""

    def __init__(self, spark: SparkSession, epochs: Epochs) -> None:
        """`epochs` is called in a session that Spark copies from `spark`."""
        self._context = spark.sparkContext
        self._epochs = epochs
        self._java: Any = None
        self._session: SparkSession | None = None
        self._connection: Any = None

    def bind(self, java: JavaObject) -> None:
        """`java`: the JVM's `EpochFunction` that calls this one."""
        self._java = java
        ensure_callback_server_started(self._context._gateway)

    def call(self, batch: Any, epoch: Epoch) -> None:
        """Run a micro-batch. The name is the Java interface's."""
        if self._session is None:  # all micro-batches of a query run in one session, and in one thread of the JVM
            self._connection = send_at_once(self._context._gateway)
            self._session = SparkSession(self._context, batch.sparkSession())
        # Raised out here, an error has no context: its traceback is that of the code that raised it.
        if (raised := self._run(DataFrame(batch, self._session), epoch)) is not None:
            raise raised

    def hang_up(self) -> None:
        """The query has ended, and with it the thread of the JVM, whose connection py4j would keep."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Py4JError):  # the JVM may be gone
                connection.shutdown()

    def _run(self, batch: DataFrame, epoch: Epoch) -> Exception | None:
        try:
            self._epochs(batch, epoch)
        except JobFunctionError as failed:
            self._tell(failed.raised)
            return failed.raised
        except StoppedError as stopped:
            self._java.stopped()
            return stopped
        except Exception as error:
            self._tell(error)
            return error
        return None

    def _tell(self, error: Exception) -> None:
        thrown = thrown_by_jvm(error)
        if isinstance(error, SlashError):
            self._java.fail(f"{type(error).__name__}: {error}", thrown)
        elif thrown is not None:
            self._java.fail(thrown)
        else:
            told = "".join(traceback.format_exception(error))
            self._java.fail(f"pyslash has failed by {type(error).__name__}: {error}\n{told}", None)

    class Java:
        """The interface that py4j implements with this class."""

        implements = ("org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction",)


def thrown_by_jvm(error: BaseException) -> Py4JObject | None:
    """What the JVM has thrown, as PySpark or py4j raised it, or as the cause of an error of ours; else None."""
    at: BaseException | None = error
    while at is not None:
        origin: Any = at
        if isinstance(at, CapturedException):  # PySpark 4.0 keeps no origin of what Python has raised
            origin = at._origin if at._origin is not None else at.__context__
        thrown = origin.java_exception if isinstance(origin, Py4JJavaError) else origin
        if isinstance(thrown, Py4JObject):
            return thrown
        at = at.__cause__
    return None


def is_of_python(error: BaseException) -> bool:
    """Whether a task has failed in Python code."""
    thrown: Any = thrown_by_jvm(error)
    while thrown is not None:
        if _OF_PYTHON in str(thrown.toString()):
            return True
        thrown = thrown.getCause()
    return False
