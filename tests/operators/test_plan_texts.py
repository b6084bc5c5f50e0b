"""The texts of plans are in checkpoints: each operator's is byte for byte the one that it has always had.

`plan_texts.json` has texts as they were before plans had a type. A text that differs from it makes another query of the
one that a checkpoint knows. To add a case, run this file as a module, and commit only what is new in the table.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash import _native
from pyslash.conf import Conf
from pyslash.driver.coverage_check import operators_of
from pyslash.operators.within_watermark.plan import WithinWatermarkPlan
from pyslash.plan.change.evolution import evolve
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.output_mode import OutputMode

RECORDED = Path(__file__).with_name("plan_texts.json")
SCHEMA = "ts timestamp, k bigint, v int, s string, d decimal(20,2)"
Query = Callable[[DataFrame], DataFrame]


def _windowed(*aggregates: str, window: str = "'10 seconds'") -> Query:
    return lambda rows: rows.groupBy(F.expr(f"window(ts, {window})"), "k").agg(*map(F.expr, aggregates))


def _session(gap: str) -> Query:
    return lambda rows: rows.groupBy(F.expr(f"session_window(ts, {gap})"), "k").agg(F.count("*"), F.sum("v"))


def _joined(rows: DataFrame) -> DataFrame:
    other = rows.select(F.col("ts").alias("at"), F.col("k").alias("other"))
    return rows.join(other, F.expr("k = other AND at BETWEEN ts AND ts + INTERVAL 1 MINUTE"))


QUERIES: dict[str, Query] = {
    "windows": _windowed("count(*)", "sum(v)", "try_sum(k)", "avg(d)", "max_by(s, v)", "first(s, true)"),
    "other windows": _windowed("avg(v)", "count(*)", "count(s)", "sum(d)", "max_by(s, v)", "min(v + 1)"),
    "sliding": _windowed("min(s)", "approx_count_distinct(v)", window="'10 seconds', '4 seconds', '1 second'"),
    "filters": _windowed(
        "max_by(v + 1, k) FILTER (WHERE v > 0)", "corr(v, k)", "max(v + 1)", "last(s) FILTER (WHERE k > 0)"
    ),
    "buffers": _windowed("collect_list(v)", "count(v)"),
    "no aggregate": lambda rows: rows.select("k", "s").groupBy("k", "s").agg(F.max("k")).select("k", "s"),
    "global": lambda rows: rows.agg(F.count("*"), F.sum("v")),
    "unique": lambda rows: rows.select("k", "s", "v").dropDuplicates(["k"]),
    "unique, other columns": lambda rows: rows.select("v", "d", "k").dropDuplicates(["k"]),
    "unique by time": lambda rows: rows.select("ts", "k", "s").dropDuplicates(["ts", "k"]),
    "unique rows": lambda rows: rows.select("k", "s").distinct(),
    "unique within": lambda rows: rows.select("ts", "k", "s").dropDuplicatesWithinWatermark(["k", "s"]),
    "unique within, reordered": lambda rows: rows.select("v", "ts", "s", "k").dropDuplicatesWithinWatermark(["s", "k"]),
    "sessions": _session("'10 seconds'"),
    "sessions with ends": _session("concat(v, ' seconds')"),
    "join": _joined,
    "the event time": lambda rows: rows.groupBy("ts", "k").agg(F.count("*"), F.sum("v")),
    "rollup of a window": lambda rows: rows.rollup(F.window("ts", "10 seconds"), "k").agg(F.count("*"), F.sum("v")),
}
MODES = {"no aggregate": OutputMode.UPDATE, "global": OutputMode.UPDATE}
# A query and what it becomes, with state of the batches before the seventh.
CHANGES = [
    ("windows", "other windows"),
    ("unique within", "unique within, reordered"),
    ("unique", "unique, other columns"),
]
BATCH = 7


def _texts(plan: OperatorPlan) -> dict[str, object]:
    """What of a plan other processes and checkpoints see."""
    found: dict[str, object] = {"text": plan.text, "fingerprint": _native.Plan(plan.text).fingerprint}
    if isinstance(plan, WithinWatermarkPlan):
        found["candidates"] = plan.candidates.text
        found["columns_of_candidates"] = plan.columns_of_candidates
    return found


def _plan(rows: DataFrame, name: str) -> OperatorPlan:
    found = operators_of(QUERIES[name](rows), MODES.get(name, OutputMode.APPEND), Conf.read(lambda _, default: default))
    return found[0][0]


def _evolved(rows: DataFrame, before: str, now: str) -> dict[str, object]:
    plan = _plan(rows, now)
    return _texts(plan.evolved(evolve(_plan(rows, before).identity, plan.identity, BATCH)))


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    return _rows(spark, str(tmp_path_factory.mktemp("rows")))


def _rows(spark: SparkSession, folder: str) -> DataFrame:
    return spark.readStream.schema(SCHEMA).parquet(folder).withWatermark("ts", "5 seconds")


@pytest.mark.parametrize("name", QUERIES)
def test_the_text_of_each_operator_is_as_recorded(rows: DataFrame, name: str) -> None:
    assert _texts(_plan(rows, name)) == json.loads(RECORDED.read_text())[name]


@pytest.mark.parametrize(("before", "now"), CHANGES)
def test_what_a_changed_query_goes_on_with_is_as_recorded(rows: DataFrame, before: str, now: str) -> None:
    assert _evolved(rows, before, now) == json.loads(RECORDED.read_text())[f"{before} -> {now}"]


if __name__ == "__main__":
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as empty:
        stream = _rows(session, empty)
        record = {name: _texts(_plan(stream, name)) for name in QUERIES}
        record |= {f"{before} -> {now}": _evolved(stream, before, now) for before, now in CHANGES}
    RECORDED.write_text(json.dumps(record, indent=2) + "\n")
