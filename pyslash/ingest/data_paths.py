"""Which paths a query's rows will take into native code and out of it, and why, for `pyslash.explain`.

This is a forecast, before there is a micro-batch: the files of a batch may still make it take another path, which
`pyslash.progress` reports.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from pyslash.conf import Conf
from pyslash.plan.catalyst import answer
from pyslash.plan.operator import OperatorPlan
from pyslash.spark.jvm_bridge import JvmBridge

_PARQUET = "parquet"
# Whose records native code reads, or executors by themselves, and what in `spark.slash.ingest.*` leaves them to Spark.
_NATIVE = {"json": "json", "from_json": "json", "csv": "csv", "from_avro": "avro", "kafka": "kafka"}
_FUNCTIONS = ("from_json", "from_avro")


def data_paths(df: DataFrame, operator: OperatorPlan, conf: Conf) -> list[tuple[str, str]]:
    """The way in, the way out: names, and what there is of each."""
    return [("ingest", _ingest(df, operator, conf)), ("emit", _emit(operator, conf))]


def _ingest(df: DataFrame, operator: OperatorPlan, conf: Conf) -> str:
    if conf.ingest == "rows":
        return "rows: spark.slash.ingest=rows"
    if operator.stands_on_others:
        return "rows: those of the operators below"
    kinds = _kinds(df)
    if list(kinds) != [_PARQUET]:
        return f"rows: {'; '.join(_records(kind, obstacle, conf) for kind, obstacle in kinds.items())}"
    if operator.scan_obstacle is not None:
        return f"rows: Spark reads the input: {operator.scan_obstacle}"
    if conf.ingest == "files":
        return "files: Parquet is read natively"
    return f"files: Parquet is read natively where a micro-batch has {conf.ingest_files_min_bytes} bytes, else rows"


def _kinds(df: DataFrame) -> dict[str, str]:
    """Of each kind of source, and of `_FUNCTIONS`, why only Spark reads its records; empty: native code does."""
    spark = df.sparkSession
    found: dict[str, str] = answer(
        JvmBridge(spark).java.recordOutlook(spark._jsparkSession, df._jdf.queryExecution().analyzed())
    )
    return found


def _records(kind: str, obstacle: str, conf: Conf) -> str:
    if kind not in _NATIVE:
        return f"Spark reads the input: its source is {kind}"
    if getattr(conf, f"ingest_{_NATIVE[kind]}") == "spark":
        obstacle = f"spark.slash.ingest.{_NATIVE[kind]}=spark"
    if kind == "kafka":
        return f"Spark's reader fetches records: {obstacle}" if obstacle else "executors fetch records of topics"
    what = kind if kind in _FUNCTIONS else f"files of {kind}"
    return f"Spark parses {what}: {obstacle}" if obstacle else f"native code parses {what}"


def _emit(operator: OperatorPlan, conf: Conf) -> str:
    where = "what is on other hosts is brought by their agents"
    if conf.transport not in ("auto", "shm"):
        where = f"all is brought by their agents: spark.slash.transport={conf.transport}"
    return f"{operator.gives}; {where}"
