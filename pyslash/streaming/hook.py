"""The hook: `start()` and `toTable()` of an enabled application, which takes over the queries that are covered.

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
from pyslash.streaming.sinks import FUNCTION, ForeachBatchSink, RefusedBySpark, SparkSink, open_sink
from pyslash.streaming.writer import WriterSettings

logger = logging.getLogger("pyslash")

_lock = threading.Lock()
_spark_start: Callable[..., StreamingQuery] | None = None
_spark_to_table: Callable[..., StreamingQuery] | None = None
_spark_foreach_batch: Callable[..., DataStreamWriter] | None = None
# One secret an application: agents and drivers derive each query's token from it.
_secret = secrets.token_bytes(SECRET_BYTES)
_runners: dict[str, tuple[StreamingQuery, EpochRunner, bool]] = {}


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
    """What runs the epochs of a query that was taken over, else None."""
    found = _runners.get(str(query.runId))
    return found[1] if found else None


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
    if mode_of(writer._spark.conf.get) == "off":
        return _spark_start(writer, path, format, outputMode, partitionBy, queryName, **options)
    _tell(writer, format, outputMode, partitionBy, queryName, options)
    spark_start = _spark_start
    return _run(writer, lambda: spark_start(writer, path), path=path)


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
    if mode_of(writer._spark.conf.get) == "off":
        return _spark_to_table(writer, tableName, format, outputMode, partitionBy, queryName, **options)
    _tell(writer, format, outputMode, partitionBy, queryName, options)
    spark_to_table = _spark_to_table
    return _run(writer, lambda: spark_to_table(writer, tableName), table=tableName)


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


def _run(
    writer: DataStreamWriter, on_spark: Callable[[], StreamingQuery], path: str | None = None, table: str | None = None
) -> StreamingQuery:
    spark = writer._spark
    conf = Conf.read(spark.conf.get)
    try:
        plan, settings = _cover(writer)
        sink = open_sink(writer, path, table)
    except RefusedBySpark:
        return on_spark()
    except Uncovered as reason:
        if mode_of(spark.conf.get) == "require":
            raise UnsupportedQueryError(
                f"spark.slash.mode=require, but pyslash does not cover this query: {reason}"
            ) from None
        logger.warning("query stays on plain Spark: %s", reason)
        return on_spark()
    return _take_over(spark, plan, settings, sink, conf)


def _cover(writer: DataStreamWriter) -> tuple[AggregationPlan, WriterSettings]:
    settings = WriterSettings.of(writer)
    settings.check()
    plan = plan_aggregation(_frame(writer))
    _check_checkpoint(writer._spark, settings.options.get("checkpointlocation"))
    return plan, settings


def _take_over(
    spark: SparkSession,
    plan: AggregationPlan,
    settings: WriterSettings,
    sink: ForeachBatchSink | SparkSink,
    conf: Conf,
) -> StreamingQuery:
    assert _spark_start is not None
    assert _spark_foreach_batch is not None
    _sweep()
    runner = EpochRunner(plan, sink, conf, _secret)
    writer = DataFrame(plan.input_dataset(), spark).writeStream.outputMode("append")
    writer = writer.options(**{name: value for name, value in settings.options.items() if name != "path"})
    writer._jwrite = writer._jwrite.trigger(settings.trigger)
    query = _spark_start(_spark_foreach_batch(writer, runner))
    sink.started(query)
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
    """Free what ended queries hold in the agents, so far as nobody needs it there to continue."""
    with _lock:
        for query, runner, temporary in _runners.values():
            if not query.isActive:
                runner.end(resumable=not temporary)


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
