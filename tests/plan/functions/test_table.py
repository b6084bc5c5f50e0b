"""Spark's aggregate functions: as which native aggregates they are covered, and why others are not."""

from __future__ import annotations

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash._native import Plan
from pyslash.conf import Conf
from pyslash.driver.coverage_check import operators_of
from pyslash.operators.aggregation import AggregationPlan
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered
from pyslash.spark.session import changed

SCHEMA = (
    "ts timestamp, b boolean, i int, l bigint, f float, d double, m decimal(20,3), s string, x binary, a array<int>"
)

COVERED = {
    "count_if(i > 1)": "count 1 0",
    "regr_count(i, l)": "count 1 0",
    "sum(i)": "sum 1 1",
    "try_sum(i)": "sum 1 0 try",
    "try_sum(m)": "sum 1 0 try",
    "try_avg(i)": "avg 1 0",
    "try_avg(m)": "avg 1 0",
    "regr_avgx(i, l)": "avg 1 1",
    "min(s)": "min 1 0",
    "max(x)": "max 1 0",
    "every(b)": "min 1 0",
    "bool_and(b)": "min 1 0",
    "bool_or(b)": "max 1 0",
    "some(b)": "max 1 0",
    "any(b)": "max 1 0",
    "variance(i)": "var_samp 1 0",
    "var_samp(m)": "var_samp 1 0",
    "var_pop(d)": "var_pop 1 0",
    "stddev(f)": "stddev_samp 1 0",
    "std(l)": "stddev_samp 1 0",
    "stddev_pop(d)": "stddev_pop 1 0",
    "skewness(i)": "skewness 1 1",
    "kurtosis(i)": "kurtosis 1 1",
    "covar_pop(i, d)": "covar_pop 1,2 0",
    "covar_samp(i, d)": "covar_samp 1,2 0",
    "regr_sxx(i, d)": "regr_sxx 1 0",
    "regr_syy(i, d)": "regr_sxx 1 0",
    "regr_sxy(i, d)": "regr_sxy 1,2 0",
    "regr_slope(i, d)": "regr_slope 1,2 0 own",
    "regr_intercept(i, d)": "regr_intercept 1,2 0 own",
    "bit_and(i)": "bit_and 1 0",
    "bit_or(l)": "bit_or 1 0",
    "bit_xor(i)": "bit_xor 1 0",
    "first(s)": "first 1 0",
    "first(s, true)": "first 1 0 ignore_nulls",
    "first_value(d) IGNORE NULLS": "first 1 0 ignore_nulls",
    "any_value(x)": "first 1 0",
    "last(m)": "last 1 0",
    "last(m, true)": "last 1 0 ignore_nulls",
    "max_by(s, i)": "max_by 1,2 0",
    "min_by(i, s)": "min_by 1,2 0",
    "max_by(s, i) FILTER (WHERE b)": "max_by 1,2 0",
    "first(s) FILTER (WHERE b)": "first 1,2 0",
    "first(a)": "first 1 0",
    "last(a, true) FILTER (WHERE b)": "last 1 0 ignore_nulls",
    "any_value(map(i, l))": "first 1 0",
    "max(a)": "max_by 1,2 0",
    "min(struct(i, m)) FILTER (WHERE b)": "min_by 1,2 0",
    "max(make_ym_interval(i))": "max_by 1,2 0",
    "max_by(a, i)": "max_by 1,2 0",
    "min_by(i, struct(i, l))": "min_by 1,2 0",
    "max_by(s COLLATE UTF8_LCASE, i)": "max_by 1,2 0",
    "first(s, true) FILTER (WHERE b)": "first 1 0 ignore_nulls",
    "approx_count_distinct(i)": "approx_count_distinct 1 0 9",
    "approx_count_distinct(s, 0.01)": "approx_count_distinct 1 0 14",
    "approx_count_distinct(d) FILTER (WHERE b)": "approx_count_distinct 1 0 9",
}
IN_BUFFERS = (
    "mode(i)",
    "collect_list(i)",
    "percentile(d, 0.5) FILTER (WHERE b)",
    "max(s COLLATE UTF8_LCASE)",
    "min_by(a, struct(s COLLATE UTF8_LCASE))",
    "avg(make_dt_interval(i))",
    "approx_count_distinct(a)",
    "approx_count_distinct(s COLLATE UTF8_LCASE)",
)
UNCOVERED = {
    "count(DISTINCT i)": "DISTINCT",
}


# Before 4.3 Spark merges these otherwise.
STATISTICS = ("var_", "stddev", "skewness", "kurtosis", "covar_", "corr", "regr_s", "regr_i", "regr_r")
UNGUARDED = "" if pyspark.__version__ >= "4.3" else "unguarded"
# Results that Spark's releases differ in.
OF_SOME_RELEASES = {"corr(d, d)": "corr 1,1 1", "regr_r2(i, d)": "regr_r2 1,2 1"}


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    folder = tmp_path_factory.mktemp("events")
    return spark.readStream.schema(SCHEMA).parquet(str(folder)).withWatermark("ts", "5 seconds")


def operator(events: DataFrame, call: str) -> AggregationPlan:
    df = events.groupBy(F.window("ts", "10 seconds")).agg(F.expr(call))
    return operators_of(df, "append", Conf.read(df.sparkSession.conf.get))[0][0]


def aggregates(events: DataFrame, call: str) -> list[str]:
    text = operator(events, call).text
    Plan(text)
    return [line.removeprefix("aggregate ") for line in text.splitlines() if line.startswith("aggregate")]


def of_this_release(line: str) -> str:
    if not UNGUARDED or not line.startswith(STATISTICS):
        return line
    return f"{line},{UNGUARDED}" if line.endswith("own") else f"{line} {UNGUARDED}"


@pytest.mark.parametrize("call", COVERED)
def test_covered(events: DataFrame, call: str) -> None:
    assert aggregates(events, call) == [of_this_release(COVERED[call])]


@pytest.mark.parametrize("call", IN_BUFFERS)
def test_what_has_no_native_form_keeps_sparks_buffers(events: DataFrame, call: str) -> None:
    found = operator(events, call)
    assert [line for line in found.text.splitlines() if line.startswith("aggregate")] == ["aggregate collect 1 0"]
    assert found.columns[0].type == "binary"
    assert found.explain_lines[-1] == ("aggregate", f"{found.aggregates[0].sql} in buffers of Spark")


def test_what_goes_by_the_order_of_rows(events: DataFrame) -> None:
    """First and last ones, lists, collations, and whatever users write; not sketches and sums of Spark's own code."""
    calls = (*COVERED, *IN_BUFFERS, "listagg(s)", "median(i)", "approx_percentile(i, 0.5)", "collect_set(i)")
    ordered = {call for call in calls if operator(events, call).ordered_by_arrival}
    functions = ("first(", "last(", "any_value(", "first_value(", "last_value(", "collect_list(")
    collated = {"max(s COLLATE UTF8_LCASE)", "min_by(a, struct(s COLLATE UTF8_LCASE))"}
    assert ordered == {call for call in calls if call.startswith((*functions, "listagg("))} | collated


def test_beside_buffers_other_functions_leave_rows_of_buffers_out(events: DataFrame) -> None:
    calls = ["count(*)", "collect_list(i)", "first(s)", "sum(i)", "max(s)", "collect_list(i)", "count(s)"]
    df = events.groupBy(F.window("ts", "10 seconds"), "s").agg(*map(F.expr, calls))
    found = operators_of(df, "update", Conf.read(df.sparkSession.conf.get))[0][0]
    assert found.text.splitlines()[2:] == [
        "column string 1",
        "column int32 1",  # 1, or nothing in a row of buffers
        "column binary 1",
        "column string 1",
        "column int32 1",
        "key 1",
        "aggregate count 2 0",
        "aggregate collect 3 0",
        "aggregate first 4,2 0",
        "aggregate sum 5 1",
        "aggregate max 4 0",
        "aggregate count 4 0",
    ]


def in_mode(df: DataFrame, mode: str) -> AggregationPlan:
    return operators_of(df, OutputMode(mode), Conf.read(df.sparkSession.conf.get))[0][0]


TUMBLING, SLIDING = "window(ts, '10 seconds')", "window(ts, '10 seconds', '4 seconds', '1 second')"
PERCENTILE, VALUES = "percentile(i, 0.5)", "collect_list(i)"
BY_KEY = "window 576460752303423488 576460752303423488 0"
# By what, of what, in which mode: the window that native code has, and what the function is.
KEPT = (
    (TUMBLING, VALUES, "append", "window 10000000 10000000 0", "collect 1 0"),
    (TUMBLING, VALUES, "complete", "window 10000000 10000000 0", "collect 1 0 folds"),
    ("s", VALUES, "update", BY_KEY, "collect 2 0 folds"),
    ("s", PERCENTILE, "complete", BY_KEY, "collect 2 0 folds"),
    (SLIDING, PERCENTILE, "append", "window 10000000 4000000 1000000", "collect 1 0"),
    (SLIDING, VALUES, "append", "window 4000000 4000000 3000000", "collect 1 0"),
    (SLIDING, PERCENTILE, "complete", "window 4000000 4000000 3000000", "collect 1 0 folds"),
)


@pytest.mark.parametrize(("key", "call", "mode", "window", "function"), KEPT)
def test_how_buffers_are_kept(events: DataFrame, key: str, call: str, mode: str, window: str, function: str) -> None:
    """Folded where no watermark ends groups; in panes of windows where that shows in no result."""
    plan = in_mode(events.groupBy(F.expr(key)).agg(F.expr(call)), mode)
    assert [line for line in plan.text.splitlines() if line.startswith(("window", "aggregate"))] == [
        window,
        f"aggregate {function}",
    ]


def test_windows_with_rows_of_their_own_are_shown_as_the_query_has_them(events: DataFrame) -> None:
    plan = in_mode(events.groupBy(F.expr(SLIDING)).agg(F.expr(VALUES)), "append")
    assert plan.grouping == "0:00:10 sliding by 0:00:04 from 0:00:01, each with rows of its own"


def test_sessions_keep_no_buffers(events: DataFrame) -> None:
    sessions = events.groupBy(F.session_window("ts", "10 seconds"), "s").agg(F.expr(PERCENTILE))
    with pytest.raises(Uncovered, match="of a session"):
        in_mode(sessions, "append")


@pytest.mark.parametrize("call", OF_SOME_RELEASES)
def test_covered_where_spark_does_not_divide_by_zero(events: DataFrame, call: str) -> None:
    if pyspark.__version__.startswith("4.0."):
        assert aggregates(events, call) == ["collect 1 0"]
    else:
        assert aggregates(events, call) == [of_this_release(OF_SOME_RELEASES[call])]


@pytest.mark.parametrize("call", UNCOVERED)
def test_uncovered_has_its_reason(events: DataFrame, call: str) -> None:
    with pytest.raises(Uncovered, match=UNCOVERED[call]):
        operator(events, call)


@pytest.mark.parametrize("call", ["skewness(i)", "kurtosis(i)", "corr(d, d)", "regr_r2(i, d)"])
def test_a_divisor_that_underflows_is_no_error_without_ansi(spark: SparkSession, events: DataFrame, call: str) -> None:
    with changed(spark, {"spark.sql.ansi.enabled": "false"}):
        (line,) = aggregates(events, call)
    assert line.split()[2] == "0"


@pytest.mark.parametrize("call", ["var_samp(d)", "stddev(d)", "skewness(d)", "kurtosis(d)", "covar_samp(d, f)"])
def test_nan_where_it_divided_by_zero_in_old_releases(spark: SparkSession, events: DataFrame, call: str) -> None:
    with changed(spark, {"spark.sql.legacy.statisticalAggregate": "true"}):
        (line,) = aggregates(events, call)
    assert line.split()[3].split(",") == ["nan", *UNGUARDED.split()]


def test_inputs_of_several_functions_are_carried_once(events: DataFrame) -> None:
    df = events.groupBy(F.window("ts", "10 seconds"), "s").agg(
        F.max_by("i", "l"), F.min_by("l", "i"), F.first("s"), F.sum("i")
    )
    found = operators_of(df, "append", Conf.read(df.sparkSession.conf.get))[0][0]
    assert found.text.splitlines()[2:] == [
        "column string 1",
        "column int32 1",
        "column int64 1",
        "key 1",
        "aggregate max_by 2,3 0",
        "aggregate min_by 3,2 0",
        "aggregate first 1 0",
        "aggregate sum 2 1",
    ]
    assert [one.sql for one in found.identity.aggregates] == ["max_by(i, l)", "min_by(l, i)", "first(s)", "sum(i)"]


def test_a_parameter_is_part_of_what_a_query_is(events: DataFrame) -> None:
    names = [operator(events, call).identity.aggregates[0].sql for call in ("first(s)", "first(s, true)")]
    assert names == ["first(s)", "first(s) ignore_nulls"]
