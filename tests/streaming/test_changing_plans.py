"""A union of which a micro-batch has one branch alone: Spark's optimizer finds fewer nulls and more constants there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.spark.session import changed
from tests.support.attempt import attempt
from tests.support.ran import ran
from tests.support.stream import Stream, seconds

SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int32()), ("x", pa.int32()), ("s", pa.string())]
)
KEEPS_BRANCHES = {"spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation"}
United = Callable[[DataFrame], DataFrame]


@pytest.fixture
def branches(spark: SparkSession, tmp_path: Path) -> tuple[Stream, Stream]:
    """Two micro-batches of the left branch, one of the right one."""
    left, right = (Stream(spark, tmp_path / side, SCHEMA, 0) for side in ("left", "right"))
    add(left, (1, "p", None, 1, "a"), (2, "q", None, None, None))
    add(right, (2, "p", 5, 2, "b"), (4, "q", None, 3, None), (5, "q", 9, None, "c"))
    add(left, (7, "p", None, None, "a"), (30, "q", None, 4, "d"))
    return left, right


def add(stream: Stream, *rows: tuple[object, ...]) -> None:
    columns = dict(zip(SCHEMA.names, zip(*rows, strict=True), strict=True))
    stream.add(pa.table(columns | {"ts": [seconds(second) for second in columns["ts"]]}, SCHEMA))


def united(left: Stream, right: Stream) -> DataFrame:
    """`v` and `s` of the left branch are constants."""
    constants = {"v": F.lit(5), "s": F.lit("a")}
    return source(left).withColumns(constants).union(source(right))


def source(stream: Stream) -> DataFrame:
    reader = stream.spark.readStream.schema("ts timestamp, k string, v int, x int, s string")
    return reader.option("maxFilesPerTrigger", 1).parquet(str(stream.folder / "in"))


def called(*calls: str) -> United:
    return lambda rows: rows.groupBy("k").agg(*map(F.expr, calls))


def of_filters(rows: DataFrame) -> DataFrame:
    told = rows.withColumn("told", F.expr("v = 5"))
    calls = ("count(*) FILTER (WHERE told)", "first(x) FILTER (WHERE told)", "max_by(s, x) FILTER (WHERE told)")
    return told.groupBy("k").agg(*map(F.expr, calls))


def of_sessions(rows: DataFrame) -> DataFrame:
    gap = F.expr("concat(v, ' seconds')")
    return rows.groupBy(F.session_window("ts", gap), "k").agg(F.max("x"), F.count("v"))


QUERIES: dict[str, United] = {
    "a count and others": called("count(v)", "sum(x)", "max(x)"),
    "a count alone": called("count(v)"),
    "a count of what others read": called("count(v)", "sum(v)", "max_by(s, x)", "count(x)"),
    "a count of several": called("count(v, s)", "count(x, s)", "min(x)"),
    "a count beside buffers": called("count(v)", "sort_array(collect_list(x))", "last(s)"),
    "a count of keys": lambda rows: rows.groupBy("k", "v", "s").agg(F.count("v"), F.sum("x")),
    "a count of all": lambda rows: rows.groupBy().agg(F.count("v"), F.sum("x")),
    "a count in windows": lambda rows: rows.groupBy(F.window("ts", "9 seconds", "6 seconds")).agg(F.count("v")),
    "filters": of_filters,
    "sessions": of_sessions,
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_micro_batches_are_sparks(branches: tuple[Stream, Stream], tmp_path: Path, query: United) -> None:
    left, right = branches
    for _ in range(2):
        expected = ran(united(left, right), tmp_path, query, "complete", "off").batches
        assert ran(united(left, right), tmp_path, query, "complete", "require").batches == expected
        assert any(expected)
        add(right, (31, "q", 7, 5, None), (33, "p", None, 6, "e"))


def test_a_micro_batch_of_fewer_functions_is_refused(branches: tuple[Stream, Stream], tmp_path: Path) -> None:
    """Both counts are one in it. Spark takes the values of its state for those of other functions."""
    query = called("count(v)", "count(*)", "sum(x)")
    found = attempt(query(united(*branches)), tmp_path / "auto", "auto", output="update")
    assert [number for number, _ in found.batches] == [0]
    assert "PlanMismatchError" in str(found.error)
    assert 'optimized to {"keys":["string"],"functions":["Count","Sum"]' in str(found.error)
    with changed(branches[0].spark, KEEPS_BRANCHES):
        expected = ran(united(*branches), tmp_path, query, "update", "off").batches
        assert ran(united(*branches), tmp_path, query, "update", "require").batches == expected
