"""The windowed aggregation in Spark's physical plan: what is covered, as which native plan, and why the rest is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.conf import Conf
from pyslash.driver.coverage_check import operators_of
from pyslash.operators.aggregation import AggregationPlan
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered

SCHEMA = "ts timestamp, k bigint, v int not null, t string, d decimal(10,2), n timestamp_ntz"


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    folder = tmp_path_factory.mktemp("events")
    return spark.readStream.schema(SCHEMA).parquet(str(folder)).withWatermark("ts", "5 seconds")


def operator(df: DataFrame, mode: OutputMode = OutputMode.APPEND) -> AggregationPlan:
    return operators_of(df, mode, Conf.read(df.sparkSession.conf.get))[0][0]


def lines(df: DataFrame) -> list[str]:
    return operator(df).text.splitlines()


def test_tumbling_window_with_a_key(events: DataFrame) -> None:
    df = events.groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v"), F.count("*"), F.avg("d"), F.max("t"))
    assert lines(df) == [
        "pyslash-plan 1",
        "window 10000000 10000000 0",
        "column int64 1",
        "column int32 1",  # a streaming source's columns are all nullable
        "column int64 1",  # Spark's optimizer averages small decimals by their unscaled values
        "column string 1",
        "key 1",
        "aggregate sum 2 1",
        "aggregate count - 0",
        "aggregate avg 3 1",
        "aggregate max 4 0",
    ]


def test_sliding_window_with_an_offset(events: DataFrame) -> None:
    df = events.groupBy(F.window("ts", "10 seconds", "4 seconds", "1 second")).count()
    plan = operator(df)
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
    assert [line.split()[0] for line in lines(df)] == [
        "pyslash-plan",
        "window",
        *["column"] * 2,
        "key",
        *["aggregate"] * 2,
    ]


def test_window_selected_before_grouping(events: DataFrame) -> None:
    df = events.select(F.window("ts", "10 seconds").alias("w"), "k").groupBy("w", "k").count()
    assert operator(df).window.size_us == 10_000_000


def test_what_computed_columns_are_is_told(events: DataFrame) -> None:
    df = (
        events.withColumn("twice", F.expr("v * 2"))
        .groupBy(F.window("ts", "10 seconds"), F.expr("k + 1"))
        .agg(F.sum("twice"))
    )
    assert operator(df).identity.columns == ("(k + 1L)", "(v * 2)")
    assert operator(df).identity.time == "ts"


def test_where_an_argument_is_evaluated_is_no_part_of_what_it_is(events: DataFrame) -> None:
    """The names are in checkpoints."""
    df = events.groupBy(F.window("ts", "10 seconds")).agg(
        F.expr("max_by(v + 1, k) FILTER (WHERE v > 0)"),
        F.expr("first(k / v) FILTER (WHERE v > 0)"),
        F.expr("max(v + 1)"),
    )
    assert operator(df).identity.columns == (
        "(v + 1)",
        "(IF((v > 0), k, CAST(NULL AS BIGINT)))",
        "(CAST(k AS DOUBLE) / CAST(v AS DOUBLE))",
        "(IF((v > 0), 1, CAST(NULL AS INT)))",
    )


def test_fingerprint_follows_everything_that_decides_the_rows(events: DataFrame) -> None:
    def counts(rows: DataFrame) -> str:
        return operator(rows.groupBy(F.window("ts", "10 seconds"), "k").count()).fingerprint

    def plus(number: int) -> DataFrame:
        return events.where(F.udf(lambda value: value + number > 3, "boolean")("v"))

    def trimmed() -> str:
        names = events.withColumn("name", F.expr("nullif(trim(t), '')"))  # of which Spark has something twice
        return operator(names.groupBy(F.window("ts", "10 seconds"), "name").count()).fingerprint

    assert counts(events) == counts(events)
    assert trimmed() == trimmed()
    assert counts(plus(1)) == counts(plus(1))
    variants = [events, events.where("v > 3"), events.where("v > 4"), plus(1), plus(2)]
    assert len({counts(rows) for rows in variants}) == len(variants)


UNCOVERED: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "no aggregation": (lambda e: e.select("k"), "no stateful operator"),
    "no window": (lambda e: e.groupBy("k").count(), "in append mode"),
    "distinct": (
        lambda e: e.groupBy(F.window("ts", "10 seconds")).agg(F.expr("count(distinct k)")),
        "DISTINCT",
    ),
    "collation": (
        lambda e: e.groupBy(F.window("ts", "10 seconds"), F.expr("t collate UNICODE")).count(),
        "collate UNICODE",
    ),
    "a limit of rows": (lambda e: e.limit(3), "limits of a stream's own rows stay on Spark"),
    "a limit below": (
        lambda e: e.limit(3).groupBy(F.window("ts", "10 seconds"), "k").count(),
        "limits of a stream's own rows stay on Spark",
    ),
    "a limit between": (
        lambda e: (
            e.groupBy(F.window("ts", "10 seconds"), "k")
            .count()
            .limit(3)
            .groupBy(F.window(F.window_time("window"), "1 minute"))
            .count()
        ),
        "limits of a stream's own rows stay on Spark",
    ),
    "a limit beside": (
        lambda e: e.groupBy(F.window("ts", "10 seconds"), "k").count().select("k").union(e.select("k").limit(3)),
        "limits of a stream's own rows stay on Spark",
    ),
}


@pytest.mark.parametrize("case", UNCOVERED)
def test_uncovered_has_its_reason(events: DataFrame, case: str) -> None:
    make, reason = UNCOVERED[case]
    with pytest.raises(Uncovered, match=reason):
        operator(make(events))


def test_no_watermark(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.readStream.schema(SCHEMA).parquet(str(tmp_path)).groupBy(F.window("ts", "10 seconds")).count()
    with pytest.raises(Uncovered, match="no watermark"):
        operator(df)


def test_batch_frame(spark: SparkSession) -> None:
    with pytest.raises(Uncovered, match="not a streaming"):
        operator(spark.range(3).groupBy("id").count())


@pytest.mark.parametrize(
    ("keys", "mode", "changes_only"),
    [
        ((F.window, "ts", "10 seconds"), OutputMode.UPDATE, True),
        ((F.window, "ts", "10 seconds"), OutputMode.COMPLETE, False),
        ((F.col, "k"), OutputMode.UPDATE, True),
        (None, OutputMode.UPDATE, False),
    ],
)
def test_output_modes(events: DataFrame, keys: Any, mode: OutputMode, changes_only: bool) -> None:
    grouped = events.groupBy(*([] if keys is None else [keys[0](*keys[1:])])).count()
    emission = operator(grouped, mode).emission
    assert (emission.mode, emission.changes_only) == (mode, changes_only)
    assert emission.window.is_all_time == (keys is None or keys[0] is F.col)


@pytest.mark.parametrize(
    ("size", "slide", "offset"),
    [
        (10, 10, 0),
        (10, 10, 3),
        (10, 5, 0),
        (10, 4, 1),
        (7, 3, 2),
        (3_600, 10, 0),
        pytest.param(86_400, 10, 0, marks=pytest.mark.nightly),
        (1, 1, 0),
    ],
)
def test_windows_are_read_from_sparks_own_expressions(events: DataFrame, size: int, slide: int, offset: int) -> None:
    window = operator(
        events.groupBy(F.window("ts", f"{size} seconds", f"{slide} seconds", f"{offset} seconds")).count()
    ).window
    assert (window.size_us, window.slide_us, window.start_offset_us) == (size * 10**6, slide * 10**6, offset * 10**6)
