"""pyslash/plan/aggregation.py: what is covered, as which native plan, and the reasons for what is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.plan import Uncovered, plan_aggregation

SCHEMA = "ts timestamp, k bigint, v int not null, t string, d decimal(10,2), n timestamp_ntz"


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    folder = tmp_path_factory.mktemp("events")
    return spark.readStream.schema(SCHEMA).parquet(str(folder)).withWatermark("ts", "5 seconds")


def lines(df: DataFrame) -> list[str]:
    return plan_aggregation(df).text.splitlines()


def test_tumbling_window_with_a_key(events: DataFrame) -> None:
    df = events.groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v"), F.count("*"), F.avg("d"), F.max("t"))
    assert lines(df) == [
        "pyslash-plan 1",
        "window 10000000 10000000 0",
        "column int64 1",
        "column int32 1",  # a streaming source's columns are all nullable
        "column decimal(10,2) 1",
        "column string 1",
        "key 1",
        "aggregate sum 2 1",
        "aggregate count - 0",
        "aggregate avg 3 1",
        "aggregate max 4 0",
    ]


def test_sliding_window_with_an_offset(events: DataFrame) -> None:
    df = events.groupBy(F.window("ts", "10 seconds", "4 seconds", "1 second")).count()
    plan = plan_aggregation(df)
    assert "window 10000000 4000000 1000000" in plan.text
    assert plan.window.pane_us == 2_000_000


def test_expressions_are_carried_once(events: DataFrame) -> None:
    df = events.groupBy(F.window("ts", "10 seconds"), F.expr("k % 10")).agg(
        F.sum("v"), F.min("v"), F.sum("v").alias("again"), F.expr("sum(v) / count(*) + 1")
    )
    assert [line for line in lines(df) if line.startswith("aggregate")] == [
        "aggregate sum 2 1",
        "aggregate min 2 0",
        "aggregate count - 0",
    ]


def test_filter_clause_and_count_of_several(events: DataFrame) -> None:
    df = events.groupBy(F.window("ts", "10 seconds")).agg(
        F.expr("count(*) filter (where v > 1)"), F.expr("count(k, t)")
    )
    assert [line for line in lines(df) if not line.startswith("pyslash")] == [
        "window 10000000 10000000 0",
        "column int32 1",
        "column int32 1",
        "aggregate count 1 0",
        "aggregate count 2 0",
    ]


def test_non_ansi_is_told(spark: SparkSession, events: DataFrame) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        assert "aggregate sum 1 0" in lines(events.groupBy(F.window("ts", "10 seconds")).agg(F.sum("k")))
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_sql_with_having_and_projection(spark: SparkSession, events: DataFrame) -> None:
    events.createOrReplaceTempView("events_for_plan")
    df = spark.sql(
        "select window.start, k + 1 as k1, avg(v) a from events_for_plan where v < 10 "
        "group by window(ts, '10 seconds'), k having count(*) > 1"
    )
    plan = plan_aggregation(df)
    merged = spark.createDataFrame([], plan.result_schema)
    result = DataFrame(plan.finish(spark._jsparkSession, merged._jdf), spark)
    assert result.schema.simpleString() == df.schema.simpleString()


def test_window_selected_before_grouping(events: DataFrame) -> None:
    df = events.select(F.window("ts", "10 seconds").alias("w"), "k").groupBy("w", "k").count()
    plan = plan_aggregation(df)
    merged = plan._catalyst.spark.createDataFrame([], plan.result_schema)
    result = DataFrame(plan.finish(df.sparkSession._jsparkSession, merged._jdf), df.sparkSession)
    assert result.columns == ["w", "k", "count"]


UNCOVERED: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "no aggregation": (lambda e: e.select("k"), "no aggregation"),
    "no window": (lambda e: e.groupBy("k").count(), "no time window"),
    "session window": (lambda e: e.groupBy(F.session_window("ts", "10 seconds")).count(), "session windows"),
    "distinct": (
        lambda e: e.groupBy(F.window("ts", "10 seconds")).agg(F.expr("count(distinct k)")),
        "DISTINCT",
    ),
    "other aggregate": (lambda e: e.groupBy(F.window("ts", "10 seconds")).agg(F.stddev("v")), "stddev"),
    "try aggregate": (lambda e: e.groupBy(F.window("ts", "10 seconds")).agg(F.expr("try_sum(v)")), "try_"),
    "stateful input": (
        lambda e: e.dropDuplicates(["k", "ts"]).groupBy(F.window("ts", "10 seconds")).count(),
        "another stateful operator",
    ),
    "aggregate of the window": (
        lambda e: (
            e.select(F.window("ts", "10 seconds").alias("w"), "k")
            .select("w", F.col("w.start").alias("s"))
            .groupBy("w")
            .agg(F.max("s"))
        ),
        "reads the window itself",
    ),
    "collation": (
        lambda e: e.groupBy(F.window("ts", "10 seconds"), F.expr("t collate UNICODE")).count(),
        "collate UNICODE",
    ),
    "two aggregations": (
        lambda e: (
            e.groupBy(F.window("ts", "10 seconds"), "k")
            .count()
            .groupBy(F.window(F.window_time("window"), "20 seconds"))
            .agg(F.sum("count"))
        ),
        "another stateful operator",
    ),
    "a limit above": (
        lambda e: e.groupBy(F.window("ts", "10 seconds"), "k").count().select("count").limit(3),
        "above the aggregation",
    ),
}


@pytest.mark.parametrize("case", UNCOVERED)
def test_uncovered_has_its_reason(events: DataFrame, case: str) -> None:
    make, reason = UNCOVERED[case]
    with pytest.raises(Uncovered, match=reason):
        plan_aggregation(make(events))


def test_no_watermark(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.readStream.schema(SCHEMA).parquet(str(tmp_path)).groupBy(F.window("ts", "10 seconds")).count()
    with pytest.raises(Uncovered, match="no watermark"):
        plan_aggregation(df)


def test_batch_frame(spark: SparkSession) -> None:
    with pytest.raises(Uncovered, match="not a streaming"):
        plan_aggregation(spark.range(3).groupBy("id").count())
