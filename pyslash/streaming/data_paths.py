"""Which paths a query's rows will take into native code and out of it, and why, for `pyslash.explain`.

This is a forecast, before there is a micro-batch: the files of a batch may still make it take another path, which
`pyslash.progress` reports.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from pyslash.conf import Conf
from pyslash.plan.catalyst import JavaObject, children, name_of
from pyslash.plan.operators import Aggregation, StreamJoin


def data_paths(df: DataFrame, operator: Aggregation, conf: Conf) -> list[tuple[str, str]]:
    """The way in, the way out: names, and what there is of each."""
    return [("ingest", _ingest(df, operator, conf)), ("emit", _emit(operator, conf))]


def _ingest(df: DataFrame, operator: Aggregation, conf: Conf) -> str:
    if conf.ingest in ("arrow", "rows"):
        return f"{conf.ingest}: spark.slash.ingest={conf.ingest}"
    if operator.stands_on_others:
        return "rows: those of the operators below"
    reason = _source_obstacle(df._jdf.queryExecution().analyzed()) or operator.scan_obstacle
    if reason is not None:
        return f"rows: Spark reads the input: {reason}"
    if conf.ingest == "files":
        return "files: Parquet is read natively"
    return f"files: Parquet is read natively where a micro-batch has {conf.ingest_files_min_bytes} bytes, else rows"


def _source_obstacle(node: JavaObject) -> str | None:
    while below := children(node):
        node = next((child for child in below if child.isStreaming()), below[0])  # not a static table
    if name_of(node) != "StreamingRelation":
        return f"its source is {node}, not Parquet files"
    kind = str(node.dataSource().className())
    return None if kind.lower() == "parquet" else f"its source is files of {kind}, not Parquet"


def _emit(operator: Aggregation, conf: Conf) -> str:
    where = "what is on other hosts is brought by their agents"
    if conf.transport not in ("auto", "shm"):
        where = f"all is brought by their agents: spark.slash.transport={conf.transport}"
    if isinstance(operator, StreamJoin):
        return f"rows: joined by executors; {where}"
    return f"columns: merged by executors; {where}"
