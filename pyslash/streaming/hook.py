"""The hook: `DataStreamWriter.start()` of an enabled application, which takes over the queries that are covered.

The job's writer is left as it is. A covered query is started as another query over the aggregation's *input*, written
with Spark's own `foreachBatch` into an `EpochRunner`; trigger, query name, checkpoint and options are the job's. Spark
thus keeps sources, offsets, watermark and scheduling, and the job gets Spark's own `StreamingQuery`.
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
from pyslash.plan import AggregationPlan, Uncovered, plan_aggregation
from pyslash.streaming.epoch import EpochRunner
from pyslash.streaming.progress import ProgressLog
from pyslash.streaming.sinks import FileSink, Sink, sink_of
from pyslash.streaming.writer import WriterSettings

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
    try:
        plan, settings, sink = _cover(writer, path)
    except Uncovered as reason:
        if mode == "require":
            raise UnsupportedQueryError(
                f"spark.slash.mode=require, but pyslash does not cover this query: {reason}"
            ) from None
        logger.warning("query stays on plain Spark: %s", reason)
        return _spark_start(writer, path)
    return _take_over(spark, plan, settings, sink, conf)


def _cover(writer: DataStreamWriter, path: str | None) -> tuple[AggregationPlan, WriterSettings, Sink]:
    settings = WriterSettings.of(writer)
    settings.check()
    options = dict(settings.options)
    if path is not None:
        options["path"] = path
    sink = sink_of(settings.source, options, settings.partition_columns, getattr(writer, _FUNCTION, None))
    if isinstance(sink, FileSink) and not _has_checkpoint(writer._spark, options):
        raise Uncovered("a file sink needs a checkpointLocation")
    plan = plan_aggregation(_frame(writer))
    _check_checkpoint(writer._spark, options.get("checkpointlocation"))
    return plan, settings, sink


def _take_over(
    spark: SparkSession, plan: AggregationPlan, settings: WriterSettings, sink: Sink, conf: Conf
) -> StreamingQuery:
    assert _spark_start is not None
    assert _spark_foreach_batch is not None
    _sweep()
    runner = EpochRunner(plan, sink, conf, _secret)
    writer = DataFrame(plan.input_dataset(), spark).writeStream.outputMode("append")
    writer = writer.options(**{name: value for name, value in settings.options.items() if name != "path"})
    writer._jwrite = writer._jwrite.trigger(settings.trigger)
    query = _spark_start(_spark_foreach_batch(writer, runner))
    temporary = not _has_checkpoint(spark, settings.options)
    with _lock:
        _runners[str(query.runId)] = (query, runner, temporary)
    logger.info(
        "query %s runs on pyslash: %s; %d keys, %d aggregates, sink %s",
        query.name or query.id,
        plan.window,
        len(plan.keys),
        len(plan.aggregates),
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


def _has_checkpoint(spark: SparkSession, options: dict[str, str]) -> bool:
    return "checkpointlocation" in options or bool(spark.conf.get("spark.sql.streaming.checkpointLocation", ""))


def _check_checkpoint(spark: SparkSession, location: str | None) -> None:
    """A checkpoint that plain Spark has begun holds its state in Spark's own store: it goes on there."""
    if location is None:
        return
    jvm: Any = spark._jvm
    root = jvm.org.apache.hadoop.fs.Path(location)
    files = root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    begun = files.exists(jvm.org.apache.hadoop.fs.Path(root, "offsets/0"))
    ours = files.exists(jvm.org.apache.hadoop.fs.Path(root, "slash"))
    if begun and not ours:
        raise Uncovered(
            f"its checkpoint {location} was begun by plain Spark; a new checkpointLocation lets pyslash run it"
        )
