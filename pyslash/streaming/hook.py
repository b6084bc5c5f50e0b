"""The hook: `DataStreamWriter.start()` of an enabled application, which takes over the queries that are covered.

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
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from pyslash.agent.token import SECRET_BYTES
from pyslash.conf import Conf, mode_of
from pyslash.errors import UnsupportedQueryError
from pyslash.plan.operators import WindowAggregate
from pyslash.plan.reasons import Uncovered
from pyslash.streaming.cover import Checkpoint, checkpoint_of, operator_of
from pyslash.streaming.epoch import EpochRunner
from pyslash.streaming.progress import ProgressLog
from pyslash.streaming.sinks import FileSink, Sink, sink_of
from pyslash.streaming.writer import WriterSettings
from pyslash.tasks.row_bridge import RowBridge

logger = logging.getLogger("pyslash")

_FUNCTION = "_slash_function"
_lock = threading.Lock()
_spark_start: Callable[..., StreamingQuery] | None = None
_spark_foreach_batch: Callable[..., DataStreamWriter] | None = None
# One secret an application: agents and drivers derive each query's token from it.
_secret = secrets.token_bytes(SECRET_BYTES)
_runners: dict[str, tuple[StreamingQuery, EpochRunner, bool]] = {}
# Of a query that has ended only its figures are kept, and of so many queries: one may be started again and again.
_MOST_ENDED = 100
_ended: dict[str, ProgressLog] = {}


def install() -> None:
    """Put the hook in place; once is enough, and again does nothing."""
    global _spark_start, _spark_foreach_batch
    with _lock:
        if _spark_start is None:
            _spark_start = DataStreamWriter.start
            _spark_foreach_batch = DataStreamWriter.foreachBatch
            DataStreamWriter.start = _start
            DataStreamWriter.foreachBatch = _foreach_batch


def uninstall() -> None:
    """Take the hook away again; queries that run go on."""
    global _spark_start, _spark_foreach_batch
    with _lock:
        if _spark_start is not None and _spark_foreach_batch is not None:
            DataStreamWriter.start = _spark_start
            DataStreamWriter.foreachBatch = _spark_foreach_batch
            _spark_start = _spark_foreach_batch = None


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
    setattr(result, _FUNCTION, func)
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
    spark = writer._spark
    mode = mode_of(spark.conf.get)
    if mode == "off":
        _refuse_our_state(spark, WriterSettings.of(writer).options | _lower(options), "spark.slash.mode=off")
        return _spark_start(writer, path, format, outputMode, partitionBy, queryName, **options)
    writer.options(**options)
    if outputMode is not None:
        writer.outputMode(outputMode)
    if partitionBy is not None:
        writer.partitionBy(partitionBy)
    if format is not None:
        writer.format(format)
    if queryName is not None:
        writer.queryName(queryName)
    conf = Conf.read(spark.conf.get)
    settings = WriterSettings.of(writer)
    try:
        operator, bridge, sink = _cover(writer, settings, path)
    except Uncovered as reason:
        if mode == "require":
            raise UnsupportedQueryError(
                f"spark.slash.mode=require, but pyslash does not cover this query: {reason}"
            ) from None
        _refuse_our_state(spark, settings.options, f"this query is not covered: {reason}")
        logger.warning("query stays on plain Spark: %s", reason)
        return _spark_start(writer, path)
    return _take_over(writer, operator, bridge, settings, sink, conf)


def _cover(writer: DataStreamWriter, settings: WriterSettings, path: str | None) -> tuple[WindowAggregate, RowBridge, Sink]:
    settings.check()
    options = dict(settings.options)
    if path is not None:
        options["path"] = path
    sink = sink_of(settings.source, options, settings.partition_columns, getattr(writer, _FUNCTION, None))
    if isinstance(sink, FileSink) and not _has_checkpoint(writer._spark, options):
        raise Uncovered("a file sink needs a checkpointLocation")
    operator, bridge = operator_of(_frame(writer), settings.output_mode)
    location = checkpoint_of(writer._spark, settings.options)
    if location is not None:
        checkpoint = Checkpoint(writer._spark, location)
        if checkpoint.has_begun and not checkpoint.is_ours:
            raise Uncovered(
                f"its checkpoint {location} holds state of plain Spark; a new checkpointLocation lets pyslash run it"
            )
    return operator, bridge, sink


def _refuse_our_state(spark: SparkSession, options: dict[str, str], why: str) -> None:
    """Plain Spark finds no state in a checkpoint of ours, and says so in words that name nothing of it.

    Raises:
        UnsupportedQueryError: the query's checkpoint has state of pyslash.
    """
    location = checkpoint_of(spark, options)
    if location is not None and Checkpoint(spark, location).is_ours:
        raise UnsupportedQueryError(
            f"the state of this query in {location} is pyslash's, which plain Spark cannot read, and {why}. Let pyslash "
            "run the query as it was, or give it a new checkpointLocation"
        )


def _take_over(
    writer: DataStreamWriter,
    operator: WindowAggregate,
    bridge: RowBridge,
    settings: WriterSettings,
    sink: Sink,
    conf: Conf,
) -> StreamingQuery:
    assert _spark_start is not None
    assert _spark_foreach_batch is not None
    _sweep()
    spark = writer._spark
    runner = EpochRunner(operator, sink, conf, _secret, spark, bridge.java)
    ours = _frame(writer).writeStream.outputMode(settings.output_mode)
    ours = ours.options(**{name: value for name, value in settings.options.items() if name != "path"})
    ours._jwrite = ours._jwrite.trigger(settings.trigger)
    query = _spark_start(_spark_foreach_batch(ours, runner))
    temporary = not _has_checkpoint(spark, settings.options)
    with _lock:
        _runners[str(query.runId)] = (query, runner, temporary)
    logger.info(
        "query %s runs on pyslash: %s; %d keys, %d aggregates, sink %s",
        query.name or query.id,
        operator.window,
        len(operator.keys),
        len(operator.aggregates),
        settings.source,
    )
    return query


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


def _lower(options: dict[str, Any]) -> dict[str, str]:
    return {name.lower(): str(value) for name, value in options.items()}


def _has_checkpoint(spark: SparkSession, options: dict[str, str]) -> bool:
    return "checkpointlocation" in options or bool(spark.conf.get("spark.sql.streaming.checkpointLocation", ""))
