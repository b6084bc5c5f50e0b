"""Arguments that are errors under ANSI in rows of which Spark does not evaluate them, against plain Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.ran import ran
from tests.support.stream import Stream, seconds

SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("qty", pa.int32()), ("x", pa.float64()), ("s", pa.string())]
)
# Where the quantity is not positive, there is no x, and s is no number.
ROWS = [
    [(1000, 1, 2, 1.5, "7"), (1001, 1, 0, None, "seven"), (1002, 2, 0, None, "none"), (1003, 1, 4, 2.5, "9")],
    [(1004, 1, 0, None, "zero"), (1005, 2, 5, 0.5, "11"), (1006, 2, 10, -1.0, "-3"), (1007, 1, -1, None, "none")],
]
FILTERED = [
    "max_by({n} / qty, ts)",
    "min_by({n} / qty, CAST(concat(s, {n}) AS INT))",
    "max_by(named_struct('n', CAST(concat(s, {n}) AS INT)), ts)",
    "first(CAST(concat(s, {n}) AS INT))",
    "last({n} / qty)",
    "any_value(CAST(concat(s, {n}) AS INT), true)",
    "max(named_struct('n', {n} / qty))",
    "min(array(CAST(concat(s, {n}) AS INT)))",
    "covar_pop({n} / qty, x)",
    "corr(x, {n} / qty)",
    "regr_slope({n} / qty, CAST(concat(s, {n}) AS INT))",
    "regr_r2(CAST(concat(s, {n}) AS INT), x)",
    "sum({n} / qty)",
]
# Of these Spark evaluates one argument first, and the other one where that is not null.
LED = [
    "max_by({n} / qty, x)",
    "min_by(CAST(concat(s, {n}) AS INT), x)",
    "covar_samp(x, {n} / qty)",
    "corr(x, CAST(concat(s, {n}) AS INT))",
    "regr_r2(x, {n} / qty)",
    "regr_sxy(x, {n} / qty)",
    "regr_slope({n} / qty, x)",
    "regr_intercept(CAST(concat(s, {n}) AS INT), x)",
]


def numbered(calls: list[str]) -> list[str]:
    """Each with other expressions: what several functions read, Spark evaluates beforehand."""
    return [call.format(n=100 + number) for number, call in enumerate(calls)]


CASES = {
    "filtered": [f"{call} FILTER (WHERE qty > 0)" for call in numbered(FILTERED)],
    "led": numbered(LED),
    "both": ["max_by(10 / qty, x) FILTER (WHERE s <> 'zero')", "corr(x, 11 / qty) FILTER (WHERE s <> 'zero')"],
    "one column": ["max_by(10 / qty, ts) FILTER (WHERE qty = 2)", "min_by(10 / qty, ts) FILTER (WHERE qty > 3)"],
    "never null": ["max_by(coalesce(10 / qty, 0), ts) FILTER (WHERE qty > 0)", "min(k)"],
    "beside buffers": ["last(10 / qty) FILTER (WHERE qty > 0)", "sort_array(collect_list(x))"],
}


@pytest.mark.parametrize("calls", CASES.values(), ids=CASES)
def test_only_what_spark_evaluates_is_evaluated(spark: SparkSession, tmp_path: Path, calls: list[str]) -> None:
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=10)
    for rows in ROWS:
        table = dict(zip(SCHEMA.names, zip(*rows, strict=True), strict=True))
        stream.add(pa.table(table | {"ts": [seconds(at) for at in table["ts"]]}, SCHEMA))
    aggregates = [F.expr(call).alias(f"a{place}") for place, call in enumerate(calls)]
    expected, found = (
        ran(stream.read(), tmp_path, lambda rows: rows.groupBy("k").agg(*aggregates), "update", mode).batches
        for mode in ("off", "require")
    )
    assert [len(batch) for batch in expected][:2] == [2, 2]
    assert found == expected


@pytest.mark.parametrize("window", [("4 seconds",), ("4 seconds", "2 seconds")], ids=["tumbling", "sliding"])
def test_nothing_is_computed_of_rows_without_a_time(
    spark: SparkSession, tmp_path: Path, window: tuple[str, ...]
) -> None:
    """They are in no window: Spark drops them before it computes keys and arguments, which are errors in them."""
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=10)
    for rows in ROWS:
        table = dict(zip(SCHEMA.names, zip(*rows, strict=True), strict=True))
        times = [seconds(at) if qty > 0 else None for at, qty in zip(table["ts"], table["qty"], strict=True)]
        stream.add(pa.table(table | {"ts": times}, SCHEMA))
    keys = (F.window("ts", *window), F.expr("CAST(s AS INT) % 2").alias("odd"))
    calls = ("sum(100 / qty)", "max(CAST(s AS INT))", "max(struct(100 / qty, s))", "count(*)")
    aggregates = [F.expr(call).alias(f"a{place}") for place, call in enumerate(calls)]
    expected, found = (
        ran(stream.read(), tmp_path, lambda rows: rows.groupBy(*keys).agg(*aggregates), "update", mode).batches
        for mode in ("off", "require")
    )
    assert any(expected)
    assert found == expected
