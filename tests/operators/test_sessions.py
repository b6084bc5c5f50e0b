"""Session windows in Spark's physical plan: as which native plan, and why some stay on Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.conf import Conf
from pyslash.driver.coverage_check import operators_of
from pyslash.operators.session.plan import SessionPlan
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered

SCHEMA = "ts timestamp, k bigint, v int, n timestamp_ntz"
MERGED_EARLY = "spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition"


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    folder = tmp_path_factory.mktemp("events")
    return spark.readStream.schema(SCHEMA).parquet(str(folder)).withWatermark("ts", "5 seconds")


def operator(df: DataFrame, mode: OutputMode = OutputMode.APPEND, **conf: str) -> SessionPlan:
    def get(name: str, default: str) -> str:
        return conf.get(name.removeprefix("spark.slash."), default)

    return operators_of(df, mode, Conf.read(get))[0][0]


def counted(rows: DataFrame, gap: str, time: str = "ts") -> DataFrame:
    return rows.groupBy(F.expr(f"session_window({time}, {gap})"), "k").agg(F.count("*"), F.sum("v"))


FIXED = [
    "pyslash-plan 1",
    "window 1 1 0",
    "session 10000000 0",
    "column int64 1",
    "column int32 1",
    "key 1",
    "aggregate count - 0",
    "aggregate sum 2 1",
]


def test_a_fixed_gap_needs_no_column(events: DataFrame) -> None:
    found = operator(counted(events, "'10 seconds'"))
    assert isinstance(found, SessionPlan)
    assert found.text.splitlines() == FIXED
    assert found.scan_obstacle is None


@pytest.mark.parametrize(
    "gap",
    [
        "concat(v, ' seconds')",
        "'1 day'",
        "CASE WHEN v > 0 THEN '1 minute' ELSE '2 minutes' END",
        "CASE WHEN hour(ts) >= 8 AND hour(ts) < 18 THEN '10 minutes' ELSE '1 minute' END",
        "CASE WHEN ts >= '2024-11-29' AND ts < '2024-12-02' THEN '10 minutes' ELSE '1 minute' END",
    ],
    ids=["of a row", "of the calendar", "of a case", "of the hour", "of some days"],
)
def test_where_rows_have_ends_of_their_own_spark_computes_them(events: DataFrame, gap: str) -> None:
    found = operator(counted(events, gap))
    assert found.text.splitlines()[2:4] == ["session 0 0", "column timestamp 1"]
    assert found.text.splitlines()[6] == "key 2"
    assert found.columns[0].sql.startswith("precisetimestampconversion(") or "ts" in found.columns[0].sql
    other = operator(counted(events, "concat(v + 1, ' seconds')"))
    assert other.identity != found.identity


def test_the_time_may_have_no_zone_and_be_computed(events: DataFrame, tmp_path: Path) -> None:
    rows = events.sparkSession.readStream.schema(SCHEMA).parquet(str(tmp_path))
    assert operator(counted(rows, "'10 seconds'", "n"), OutputMode.COMPLETE).text.splitlines() == FIXED
    later = operator(
        counted(events.withColumn("ts", F.expr("ts + INTERVAL '1' HOUR")), "'10 seconds'"), OutputMode.COMPLETE
    )
    assert later.text.splitlines()[2] == "session 10000000 0"


def test_rows_of_a_task_may_be_judged_together(spark: SparkSession, events: DataFrame) -> None:
    spark.conf.set(MERGED_EARLY, "true")
    try:
        assert "session 10000000 1" in operator(counted(events, "'10 seconds'")).text
        with pytest.raises(Uncovered, match=r"local\.partition"):
            operator(counted(events, "'10 seconds'"), strategy="repartition")
    finally:
        spark.conf.unset(MERGED_EARLY)


UNCOVERED: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "the order of rows": (
        lambda e: e.groupBy(F.session_window("ts", "1 minute"), "k").agg(F.first("v")),
        "depends on the order",
    ),
    "no key": (lambda e: e.groupBy(F.session_window("ts", "1 minute")).count(), "Spark does not plan it"),
}


@pytest.mark.parametrize("case", UNCOVERED)
def test_not_covered(events: DataFrame, case: str) -> None:
    query, reason = UNCOVERED[case]
    with pytest.raises(Uncovered, match=reason):
        operator(query(events))


def test_there_is_no_update_mode(events: DataFrame) -> None:
    with pytest.raises(Uncovered, match="update mode, in Spark either"):
        operator(counted(events, "'10 seconds'"), OutputMode.UPDATE)


def test_explain_tells_the_gap(events: DataFrame) -> None:
    assert "sessions with a gap of 0:00:10, of ts" in pyslash.explain(counted(events, "'10 seconds'"))
    text = pyslash.explain(counted(events, "concat(v, ' seconds')"), OutputMode.COMPLETE)
    assert "sessions with a gap of each row's own" in text
