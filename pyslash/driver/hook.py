"""The hook: `start()` and `toTable()` of an enabled application, which takes over the queries that are covered.

The job's writer is left as it is. A covered query is the job's own, plan and all, started with Spark's own
`foreachBatch` into an `EpochRunner`; output mode, trigger, query name, checkpoint and options are the job's. Spark thus
keeps sources, offsets, watermarks, its no-data micro-batches and scheduling, and the job gets Spark's own
`StreamingQuery`.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from pyslash.conf import Conf, mode_of
from pyslash.driver.coverage_check import Checkpoint, check_checkpoint, operators_of
from pyslash.driver.epoch import EpochRunner
from pyslash.driver.sinks import FUNCTION, ForeachBatchSink, SparkSink, open_sink
from pyslash.driver.watch import QueryWatch
from pyslash.epoch_progress import ProgressLog
from pyslash.errors import UnsupportedQueryError
from pyslash.memory import Container
from pyslash.operators.match import started
from pyslash.plan.catalyst import JavaObject
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.reasons import Uncovered, fallback_of
from pyslash.protocol.token import SECRET_BYTES
from pyslash.spark.execution import BatchExecution
from pyslash.spark.failure import EpochCallback
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.session import conf_of
from pyslash.spark.spark_log import notice
from pyslash.spark.spark_settings import check_options
from pyslash.spark.writer import RefusedBySpark, WriterSettings

logger = logging.getLogger("pyslash")

_SCHEMA_CHECK = "spark.sql.streaming.stateStore.stateSchemaCheck"
_lock = threading.Lock()
_spark_start: Callable[..., StreamingQuery] | None = None
_spark_to_table: Callable[..., StreamingQuery] | None = None
_spark_foreach_batch: Callable[..., DataStreamWriter] | None = None
# One secret an application: agents and drivers derive each query's token from it.
_secret = secrets.token_bytes(SECRET_BYTES)
_runners: dict[str, tuple[StreamingQuery, EpochRunner, bool]] = {}
# Of a query that has ended only its figures are kept, and of so many queries: one may be started again and again.
_MOST_ENDED = 100
_ended: dict[str, ProgressLog] = {}


def install() -> None:
    """Put the hook in place; once is enough, and again does nothing."""
    global _spark_start, _spark_to_table, _spark_foreach_batch
    with _lock:
        if _spark_start is None:
            _spark_start = DataStreamWriter.start
            _spark_to_table = DataStreamWriter.toTable
            _spark_foreach_batch = DataStreamWriter.foreachBatch
            DataStreamWriter.start = _start
            DataStreamWriter.toTable = _to_table
            DataStreamWriter.foreachBatch = _foreach_batch


def uninstall() -> None:
    """Take the hook away again; queries that run go on."""
    global _spark_start, _spark_to_table, _spark_foreach_batch
    with _lock:
        if _spark_start is not None and _spark_to_table is not None and _spark_foreach_batch is not None:
            DataStreamWriter.start = _spark_start
            DataStreamWriter.toTable = _spark_to_table
            DataStreamWriter.foreachBatch = _spark_foreach_batch
            _spark_start = _spark_to_table = _spark_foreach_batch = None


def runner_of(query: StreamingQuery) -> EpochRunner | None:
    """What runs the epochs of a query that was taken over, else None; of one that has ended, until the next starts."""
    found = _runners.get(str(query.runId))
    return found[1] if found else None


def progress_of(query: StreamingQuery) -> ProgressLog | None:
    """Figures of a query that was taken over, once it has run an epoch; of an ended one if it was among the last."""
    run = str(query.runId)
    with _lock:
        found = _runners.get(run)
        return found[1].progress if found else _ended.get(run)


def _foreach_batch(writer: DataStreamWriter, func: Callable[[DataFrame, int], None]) -> DataStreamWriter:
    assert _spark_foreach_batch is not None
    result = _spark_foreach_batch(writer, func)
    setattr(result, FUNCTION, func)
    return result


def _start(
    writer: DataStreamWriter,
    path: str | None = None,
    format: str | None = None,
    outputMode: str | None = None,
    partitionBy: str | list[str] | None = None,
    queryName: str | None = None,
    **options: Any,
) -> StreamingQuery:
    """`DataStreamWriter.start` with its own signature."""
    assert _spark_start is not None
    told = (format, outputMode, partitionBy, queryName, options)
    return _intercept(writer, partial(_spark_start, writer, path), told, path=path)


def _to_table(
    writer: DataStreamWriter,
    tableName: str,
    format: str | None = None,
    outputMode: str | None = None,
    partitionBy: str | list[str] | None = None,
    queryName: str | None = None,
    **options: Any,
) -> StreamingQuery:
    """`DataStreamWriter.toTable` with its own signature."""
    assert _spark_to_table is not None
    told = (format, outputMode, partitionBy, queryName, options)
    return _intercept(writer, partial(_spark_to_table, writer, tableName), told, table=tableName)


def _intercept(
    writer: DataStreamWriter,
    on_spark: Callable[..., StreamingQuery],
    told: tuple[str | None, str | None, str | list[str] | None, str | None, dict[str, Any]],
    path: str | None = None,
    table: str | None = None,
) -> StreamingQuery:
    """Start the query on pyslash or by `on_spark`, which takes what it was `told` besides where to write."""
    *settings, query_name, options = told
    if mode_of(writer._spark.conf.get) == "off":
        _leave_alone(writer, query_name, options)
        return on_spark(*settings, query_name, **options)
    _tell(writer, *told)
    return _run(writer, on_spark, path=path, table=table)


def _tell(
    writer: DataStreamWriter,
    source: str | None,
    output_mode: str | None,
    partition_by: str | list[str] | None,
    query_name: str | None,
    options: dict[str, Any],
) -> None:
    """Tell the writer the arguments of `start` or `toTable`, as those do."""
    writer.options(**options)
    if output_mode is not None:
        writer.outputMode(output_mode)
    if partition_by is not None:
        writer.partitionBy(partition_by)
    if source is not None:
        writer.format(source)
    if query_name is not None:
        writer.queryName(query_name)


def _leave_alone(writer: DataStreamWriter, query_name: str | None, options: dict[str, Any]) -> None:
    told = options if query_name is None else {**options, "queryName": query_name}
    settings = WriterSettings.of(writer).with_options(told)
    _refuse_our_state(writer._spark, settings, "spark.slash.mode=off")


def _run(
    writer: DataStreamWriter, on_spark: Callable[[], StreamingQuery], path: str | None = None, table: str | None = None
) -> StreamingQuery:
    conf = conf_of(writer._spark)
    settings = WriterSettings.of(writer)
    try:
        settings.check()
        operators, bridge = operators_of(_frame(writer), settings.output_mode, conf)
        check_options(settings)
        check_checkpoint(writer._spark, settings, conf, operators)
        sink = open_sink(writer, path, table)
    except RefusedBySpark:
        return on_spark()
    except Uncovered as reason:
        if conf.mode == "require":
            raise UnsupportedQueryError(
                f"spark.slash.mode=require, but pyslash does not cover this query: {reason}"
            ) from None
        _refuse_our_state(writer._spark, settings, f"this query is not covered: {reason}")
        fallback = fallback_of(reason)
        query = on_spark()
        if fallback.has_state:
            logger.warning("query %s stays on plain Spark: %s", query.name or query.id, fallback)
        else:
            notice("query %s stays on plain Spark: %s", query.name or query.id, fallback)
        watch = QueryWatch.of(writer._spark, settings, conf)
        if watch is not None:
            watch.stays(query, fallback)
        return query
    return _take_over(writer, operators, bridge, settings, sink, conf)


def _refuse_our_state(spark: SparkSession, settings: WriterSettings, why: str) -> None:
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
    writer: DataStreamWriter,
    operators: list[OperatorPlan],
    bridge: JvmBridge,
    settings: WriterSettings,
    sink: ForeachBatchSink | SparkSink,
    conf: Conf,
) -> StreamingQuery:
    _sweep()
    spark = writer._spark
    container = Container.of(spark.sparkContext.getConf().get, conf)
    if container is not None and container.shortage is not None:
        logger.warning(container.shortage)
    batch_of = partial(BatchExecution.called_with, owner=spark, operators=operators, bridge=bridge.java)
    watch = QueryWatch.of(spark, settings, conf)
    runner = EpochRunner(operators, sink, conf, _secret, batch_of, watch, settings.options.get("queryname", ""))
    windows_truncated = any(operator.windows_truncated for operator in operators)
    frame = started(bridge.java, _frame(writer)) if windows_truncated else _frame(writer)
    ours = frame.writeStream.outputMode(settings.output_mode.value)
    ours = ours.options(**{name: value for name, value in settings.options.items() if name.lower() != "path"})
    ours._jwrite = ours._jwrite.trigger(settings.trigger)
    query = _started(ours, runner, bridge.java)
    sink.started(query)
    temporary = settings.checkpoint(spark) is None
    with _lock:
        _runners[str(query.runId)] = (query, runner, temporary)
    if watch is not None:
        watch.started(query, _frame(writer), operators)
    told = "; ".join(operator.summary for operator in operators)
    notice("query %s runs on pyslash: %s, sink %s", query.name or query.id, told, settings.source)
    return query


def _started(writer: DataStreamWriter, runner: EpochRunner, bridge: JavaObject) -> StreamingQuery:
    """Start a query whose session, a copy of this one, leaves its state to us.

    Spark compares the schemas of its own state stores, which it never opens here; our manifests know more. And
    `foreachBatch` is to execute nothing of a plan that we execute.
    """
    assert _spark_start is not None
    conf = writer._spark.conf
    with _lock:
        deferred = str(bridge.deferPlansOf(writer._spark._jsparkSession))
        before = conf.get(_SCHEMA_CHECK)
        conf.set(_SCHEMA_CHECK, "false")
        conf.set(deferred, "true")
        try:
            return _spark_start(EpochCallback(writer._spark, runner).attach(writer, bridge))
        finally:
            conf.set(_SCHEMA_CHECK, before)
            conf.unset(deferred)


def _sweep() -> None:
    """Let go of queries that have ended, and of what they hold in the agents if nobody needs it there to continue."""
    with _lock:
        for run, (query, runner, temporary) in list(_runners.items()):
            if query.isActive:
                continue
            runner.end(resumable=not temporary)
            del _runners[run]
            if runner.progress is not None:
                _ended[run] = runner.progress
        for run in list(_ended)[:-_MOST_ENDED]:
            del _ended[run]


def _frame(writer: DataStreamWriter) -> DataFrame:
    return writer._df
