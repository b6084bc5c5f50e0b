"""The Python face of the row bridge: adds the jar to a session, runs update jobs, and maps what the JVM reports."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from pyslash import errors
from pyslash.plan.spec import ANY_WINDOW, AggregateSpec, PlanSpec
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.spark.job import slash_error
from pyslash.spark.py4j_settings import leave_out_secrets
from pyslash.spark.scan_figures import ScanFigures
from pyslash.spark.update_spec import AgentSpec, UpdateSpec
from pyslash.state.receipt import Receipt
from pyslash.units import Epoch, Micros

_BRIDGE = "io.pyslash.Bridge"
# The head of what `io.pyslash.ingest.UpdateResult` describes: statistics of event times, counts, length of the JSON.
_RESULT = struct.Struct("<qqqdqqqqi")
_NO_TIME_MS = -(1 << 63)
_COUNT_ALL = PlanSpec(window=ANY_WINDOW, aggregates=(AggregateSpec("count"),))


def jar_path(name: str = "pyslash.spark.jar") -> Path:
    """A jar of this installation.

    Raises:
        RowBridgeUnavailableError: it was built without the JVM face.
    """
    # Joined before it becomes a path: an editable installation has files of the package in two folders.
    path = Path(str(resources.files("pyslash").joinpath("jars", name)))
    if not path.is_file():
        raise errors.RowBridgeUnavailableError(
            f"{path} is missing: this installation was built without the JVM face. Build it with a JDK of version 17 "
            "or later"
        )
    return path


@dataclass(frozen=True)
class TaskRead:
    """What a task of an update has read: of which `input` of the operator, from 0, and of which `partition` of a topic
    (`topic-number`; None: of none, of several, or what a shuffle has brought).

    `newest_ms` is the newest event time (milliseconds since 1970; None: there was none), `late_rows` how many of its
    rows were late.
    """

    input: int
    partition: str | None
    newest_ms: int | None
    late_rows: int


@dataclass(frozen=True)
class InputFigures:
    """Records of an update that native code left to Spark, and why Spark read all of a function, or of files.

    `in_pages`: records of files that native code handed to the accumulator a page at a time; `fetched`: records of
    topics that have come past Spark's reader; `in_columns`: rows whose values Spark's generated code has handed over in
    columns, and not as rows; `reads`: what each task has read, of a join or of topics, else nothing.
    """

    left_to_spark: int = 0
    obstacles: tuple[str, ...] = ()
    in_pages: int = 0
    fetched: int = 0
    in_columns: int = 0
    reads: tuple[TaskRead, ...] = ()


class JvmBridge:
    """The update jobs of one session. `input` belongs to the last one."""

    def __init__(self, session: SparkSession) -> None:
        """Adds the jar to the session's application, if it is not there yet.

        Raises:
            RowBridgeUnavailableError: the jar is missing, or cannot be added.
            UnknownSparkError: this release of Spark lacks what pyslash takes of it by name.
        """
        leave_out_secrets()
        self._session = session
        self._bridge = self._find()
        self.input = InputFigures()

    def update(self, rows: DataFrame | Any, spec: UpdateSpec) -> tuple[list[Receipt], ScanFigures]:
        """One update job; the receipts of its tasks, one a partition, and what Spark has not counted itself.

        The figures are empty where the job has left Spark's watermark operator in its plan. They never hold rows: the
        scan is Spark's.

        Args:
            rows: a DataFrame or a JVM `SparkPlan`; its columns are the event time and the plan's columns in order.
            spec: what becomes of them.

        Raises:
            ArenaFullError, AgentStartError, InvalidInputError, …: what a task reported.
            PySparkException, Py4JJavaError: Spark's own failures, as PySpark raises them: a bad row, a cancelled job.
        """
        plan = rows._jdf.queryExecution().executedPlan() if isinstance(rows, DataFrame) else rows
        try:
            encoded: str = self._bridge.update(plan, spec.to_json())
        except Py4JJavaError as failure:
            if (ours := slash_error(failure)) is not None:
                raise ours from failure
            raise
        result = base64.b64decode(encoded)
        count, least, greatest, total, in_columns, by_spark, in_pages, fetched, length = _RESULT.unpack_from(result)
        receipts = _RESULT.size + length
        told = json.loads(result[_RESULT.size : receipts])
        parsed = Receipt.parse_all(result[receipts:])
        reads = tuple(map(_read, told["tasks"], parsed))
        self.input = InputFigures(by_spark, tuple(told["obstacles"]), in_pages, fetched, in_columns, reads)
        figures = ScanFigures(0, count, round(total), least, greatest) if count else ScanFigures()
        return parsed, figures

    @property
    def java(self) -> Any:
        """The JVM's `Bridge` itself."""
        return self._bridge

    def agents(self, tasks: int, agent: AgentSpec) -> list[AgentDescriptor]:
        """The agents of the executors that run these tasks. Starts missing agents, but no Python worker.

        Raises:
            AgentStartError: an executor's agent could not be started.
        """
        # An update of no rows: its tasks need an agent as any do, publish nothing, and their receipts say whose it is.
        nothing = self._session.range(0, tasks, 1, tasks).where("id < 0").selectExpr("timestamp_micros(id)")
        spec = UpdateSpec(plan=_COUNT_ALL, watermark_us=Micros(0), query=bytes(16), epoch=Epoch(0), agent=agent)
        receipts, _ = self.update(nothing, spec)
        return sorted({receipt.agent for receipt in receipts}, key=lambda agent: agent.incarnation)

    def scan(self, plan: Any) -> Any:
        """The JVM's `FileScan` of a physical plan: its `describe(least_bytes)` is text for `ParquetScan.parse`."""
        return self._bridge.scan(plan)

    def _find(self) -> Any:
        """A `Bridge`, from the loader that sees what ADD JAR added: the driver's own class path need not have it."""
        jvm: Any = self._session._jvm
        loader = self._session._jsparkSession.sharedState().jarClassLoader()
        path = jar_path()
        try:
            added = {str(url).rpartition("/")[2] for url in loader.getURLs()}
            if path.name not in added and not self._has_been_brought(loader, path.name):
                # The path is quoted: it may hold blanks.
                self._session.sql(f"ADD JAR '{path}'")
            return jvm.java.lang.Class.forName(_BRIDGE, True, loader).newInstance()
        except Py4JJavaError as failure:
            if (ours := slash_error(failure)) is not None:
                raise ours from failure
            raise errors.RowBridgeUnavailableError(f"{path} cannot be added to the session: {failure}") from failure

    def _has_been_brought(self, loader: Any, jar: str) -> bool:
        """Whether `spark.jars` or the class paths have the jar.

        An application before this one, in the same JVM, leaves its loader above ours, and its jar at no executor.
        """
        context = self._session.sparkContext._jsc.sc()
        if not _finds(self._session._jvm, loader, _BRIDGE):
            return False
        listed = str(context.listJars().mkString("\n")).split("\n")
        is_listed = jar in {one.rpartition("/")[2] for one in listed}
        return is_listed or _finds(self._session._jvm, context.getClass().getClassLoader(), _BRIDGE)


def _read(task: dict[str, Any], receipt: Receipt) -> TaskRead:
    """Of a task, as the JVM's `TaskInputs.Read` tells it, and its block."""
    newest_ms = task["newest_ms"] if task["newest_ms"] != _NO_TIME_MS else None
    return TaskRead(task["input"], task["partition"], newest_ms, task["late"] + receipt.head.late_rows)


def _finds(jvm: Any, loader: Any, name: str) -> bool:
    try:
        jvm.java.lang.Class.forName(name, False, loader)
    except Py4JJavaError:
        return False
    return True
