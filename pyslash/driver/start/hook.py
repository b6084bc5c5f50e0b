"""The hook: what happens to a query that is about to start in an application with pyslash.

A covered query is the job's own, plan and all, started with an `EpochRunner` as its sink; output mode, trigger, query
name, checkpoint and options are the job's. Spark thus keeps sources, offsets, watermarks, its no-data micro-batches and
scheduling, and the job gets Spark's own `StreamingQuery`. All others start as Spark starts them.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol
from uuid import UUID

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from pyslash.conf import Conf
from pyslash.driver.background_task import BackgroundTask
from pyslash.driver.backlog import Backlog, reordered, sampled
from pyslash.driver.coverage_check import Checkpoint, covered_operators
from pyslash.driver.epoch import EpochRunner
from pyslash.driver.ports import Ports
from pyslash.driver.sinks import FunctionSink, OpenSink
from pyslash.driver.watch import QueryWatch
from pyslash.epoch_progress import ProgressLog
from pyslash.errors import UnsupportedQueryError
from pyslash.memory import Container
from pyslash.operators.match import with_few_windows
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.reasons import Fallback, Uncovered, fallback_of
from pyslash.protocol.token import SECRET_BYTES
from pyslash.spark import running_queries
from pyslash.spark.execution import BatchExecution
from pyslash.spark.failure import EpochCallback
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.session import conf_of
from pyslash.spark.spark_log import notice
from pyslash.spark.writer import RefusedBySpark, WriterSettings

logger = logging.getLogger("pyslash")

_SCHEMA_CHECK = "spark.sql.streaming.stateStore.stateSchemaCheck"
_SWEEP_SECONDS = 5.0
# So long a query that starts waits for what others hold to be let go of: one of their agents may not answer.
_PATIENCE_SECONDS = 5.0
_lock = threading.Lock()
# Never held while a query starts: Spark waits there for listeners, which may ask for figures and start queries.
_settings_lock = threading.Lock()
# Sessions in which queries start: how many, and the setting that the session had before; None: it had none.
_starting: dict[str, tuple[int, str | None]] = {}
# One secret an application: agents and drivers derive each query's token from it.
_secret = secrets.token_bytes(SECRET_BYTES)
_runners: dict[str, tuple[StreamingQuery, EpochRunner, bool]] = {}
_callbacks: dict[str, EpochCallback] = {}
# Of a query that has ended only its figures are kept, and of so many queries: one may be started again and again.
_MOST_ENDED = 100
_ended: dict[str, ProgressLog] = {}


def share(secret: bytes) -> None:
    """The application's secret, which a process before this one may have had."""
    global _secret
    _secret = secret


def runner_of(query: StreamingQuery) -> EpochRunner | None:
    """What runs the epochs of a query that was taken over, else None; of one that has ended, until the next starts."""
    found = _runners.get(str(query.runId))
    return found[1] if found else None


def progress_of(query: StreamingQuery) -> ProgressLog | None:
    """Figures of a query that was taken over, once it has run an epoch; of an ended one if it was among the last."""
    return progress_of_run(str(query.runId))


def progress_of_run(run: str) -> ProgressLog | None:
    """The same by the id of the query's run."""
    with _lock:
        found = _runners.get(run)
        return found[1].progress if found else _ended.get(run)


class QueryStart(Protocol):
    """A query that is about to start."""

    @property
    def spark(self) -> SparkSession:
        """The session that it starts in."""

    @property
    def rows(self) -> DataFrame:
        """What it writes."""

    @property
    def settings(self) -> WriterSettings:
        """What the job has set."""

    @property
    def sink(self) -> OpenSink:
        """Where it writes to."""

    def on_spark(self) -> StreamingQuery:
        """Start it as Spark would have."""

    def on_pyslash(self, rows: DataFrame, epochs: EpochCallback) -> StreamingQuery:
        """Start it over these rows, its micro-batches run by `epochs`."""


def start(query: QueryStart) -> StreamingQuery:
    """Start a query on pyslash if that covers it, else on plain Spark, and say which in Spark's log.

    Raises:
        UnsupportedQueryError: it has to run on pyslash, by its mode or by its state, and is not covered.
        ConfigError: a `spark.slash.*` key does not exist, or its value is wrong.
        PySparkException: Spark refuses it.
    """
    spark, settings = query.spark, query.settings
    conf = conf_of(spark)
    sample = sampled(query.rows, settings, conf)
    try:
        operators, bridge = covered_operators(query.rows if sample is None else sample, settings, conf)
    except RefusedBySpark:
        return query.on_spark()
    except Uncovered as reason:
        if conf.mode == "require":
            raise UnsupportedQueryError(
                f"spark.slash.mode=require, but pyslash does not cover this query: {reason}"
            ) from None
        refuse_our_state(spark, settings, f"this query is not covered: {reason}")
        return _stays(query, fallback_of(reason), conf)
    return _take_over(query, sample, operators, bridge, conf)


def _stays(query: QueryStart, fallback: Fallback, conf: Conf) -> StreamingQuery:
    started = query.on_spark()
    if fallback.has_state:
        logger.warning("query %s stays on plain Spark: %s", started.name or started.id, fallback)
    else:
        notice("query %s stays on plain Spark: %s", started.name or started.id, fallback)
    watch = QueryWatch.of(query.spark, query.settings, conf)
    if watch is not None:
        watch.stays(started, fallback)
    return started


def refuse_our_state(spark: SparkSession, settings: WriterSettings, why: str) -> None:
    """Plain Spark finds no state in a checkpoint of ours, and says so in words that name nothing of it.

    Raises:
        UnsupportedQueryError: the query's checkpoint has state of pyslash.
    """
    location = settings.checkpoint(spark)
    try:
        is_ours = location is not None and Checkpoint(spark, location).is_ours
    except (PySparkException, Py4JJavaError):
        return  # a location that cannot be reached is Spark's to refuse
    if is_ours:
        raise UnsupportedQueryError(
            f"the state of this query in {location} is pyslash's, which plain Spark cannot read, and {why}. Let "
            "pyslash run the query as it was, move it by `pyslash state export`, or give it a new checkpointLocation"
        )


def _take_over(
    query: QueryStart, sample: DataFrame | None, operators: list[OperatorPlan], bridge: JvmBridge, conf: Conf
) -> StreamingQuery:
    _sweep_briefly()
    spark, settings = query.spark, query.settings
    container = Container.of(spark.sparkContext.getConf().get, conf)
    if container is not None and container.shortage is not None:
        logger.warning(container.shortage)
    its_way = sample if sample is not None else reordered(bridge.java, query.rows, operators, settings, conf)
    batch_of = partial(
        BatchExecution.called_with,
        owner=spark,
        operators=operators,
        bridge=bridge.java,
        reads_its_way=its_way is not None,
    )
    adds_columns = sample is None and conf.adds_backlog_columns and isinstance(query.sink, FunctionSink)
    backlog = Backlog(settings.output_mode, adds_columns) if its_way is not None else None
    watch = QueryWatch.of(spark, settings, conf)
    name = settings.query_name or ""
    ports = Ports(settle=_let_go_of)
    runner = EpochRunner(operators, query.sink, conf, _secret, batch_of, watch, name, ports, backlog)
    windows_truncated = any(operator.windows_truncated for operator in operators)
    rows = its_way if its_way is not None else query.rows
    rows = with_few_windows(bridge.java, rows) if windows_truncated else rows
    with _without_schema_check(spark):
        epochs = EpochCallback(spark, runner)
        started = query.on_pyslash(rows, epochs)
    temporary = settings.checkpoint(spark) is None
    with _lock:
        _runners[str(started.runId)] = (started, runner, temporary)
        _callbacks[str(started.runId)] = epochs
    _sweeper.wake()
    running_queries.add(spark, started)
    if watch is not None:
        watch.started(started, query.rows, operators)
    told = "; ".join(operator.summary for operator in operators)
    notice("query %s runs on pyslash: %s, sink %s", started.name or started.id, told, settings.sink)
    return started


@contextmanager
def _without_schema_check(spark: SparkSession) -> Iterator[None]:
    """A query that starts in here has a session, a copy of this one, which leaves its state to us.

    Spark compares the schemas of its own state stores, which it never opens here; our manifests know more. Of queries
    that start at once, the last one gives the session its setting back: none waits for another, which may itself wait
    for a listener that starts a query.
    """
    conf, session = spark.conf, str(spark._jsparkSession.sessionUUID())
    with _settings_lock:
        starting, before = _starting.get(session) or (0, conf.get(_SCHEMA_CHECK, None))
        _starting[session] = (starting + 1, before)
        conf.set(_SCHEMA_CHECK, "false")
    try:
        yield
    finally:
        with _settings_lock:
            starting, before = _starting.pop(session)
            if starting > 1:
                _starting[session] = (starting - 1, before)
            elif before is None:
                conf.unset(_SCHEMA_CHECK)
            else:
                conf.set(_SCHEMA_CHECK, before)


def _sweep(runs: Collection[str] | None = None, waits: bool = True) -> None:
    """Let go of queries that have ended, and of what they hold in the agents if nobody needs it there to continue.

    `runs`: of these alone; None: of all. `waits`: for those that another thread is letting go of, too.

    Raises:
        Exception: that of the first query that cannot be let go of, or asked; the others are let go of all the same.
    """
    failures = []
    for run in list(_runners):
        if runs is None or run in runs:
            try:
                _sweep_one(run, waits)
            except Exception as error:
                failures.append(error)
    if failures:
        raise failures[0]


def _sweep_one(run: str, waits: bool) -> None:
    if (entry := _runners.get(run)) is None:
        return
    query, runner, temporary = entry
    if query.isActive or not runner.ending.acquire(blocking=waits):
        return
    try:
        runner.is_over = True
        if run not in _runners or runner.is_running:
            return
        runner.end(resumable=not temporary)
        with _lock:
            del _runners[run]
            epochs = _callbacks.pop(run, None)
            if runner.progress is not None:
                _ended[run] = runner.progress
            for old in list(_ended)[:-_MOST_ENDED]:
                del _ended[old]
        if epochs is not None:
            epochs.hang_up()
    finally:
        runner.ending.release()


def _sweep_briefly() -> None:
    """Sweep before a query starts, which goes on without what takes long."""

    def sweep() -> None:
        try:
            _sweep(waits=False)
        except Exception as error:
            _warn(error)

    thread = threading.Thread(target=sweep, name="pyslash ended queries", daemon=True)
    thread.start()
    thread.join(_PATIENCE_SECONDS)


def _warn(error: Exception) -> None:
    logger.debug("queries that have ended are let go of when the next one starts: %s", error)


def _let_go_of(query_id: UUID) -> None:
    """A run of this query begins: what its run before holds must not be half let go of."""
    _sweep({run for run, (query, _, _) in list(_runners.items()) if query.id == str(query_id)})


class _Sweeper:
    """Sweeps where no query starts, which sweeps as well: runs that had ended by the look before."""

    def __init__(self) -> None:
        self._ended: set[str] = set()
        self._task = BackgroundTask(self._step, "pyslash ended queries", _warn, _SWEEP_SECONDS)

    def wake(self) -> None:
        """A query has started."""
        self._task.wake()

    def _step(self) -> bool:
        _sweep(self._ended, waits=False)
        with _lock:
            known = list(_runners.items())
        self._ended = {run for run, (query, _, _) in known if not query.isActive}
        return bool(known)


_sweeper = _Sweeper()
