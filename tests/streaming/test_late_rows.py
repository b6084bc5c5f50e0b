"""What Spark's progress says of late rows, which docs/differences.md tells apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.attempt import attempt, make_stream

# In the last batch nine rows of two groups are late, in one task.
BATCHES = [
    [(1005, "a", 1)],
    [(1200, "a", 1)],
    [(1300, "a", 1)],
    [*[(1001, "a", 1)] * 6, *[(1001, "b", 1)] * 3, (1400, "a", 1)],
]


def counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.window("ts", "10 seconds"), "k").count()


def distinct(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["k", "ts"])


@pytest.mark.parametrize(("query", "by_spark"), [(counted, 2), (distinct, 9)])
def test_late_rows_are_counted_one_by_one(
    spark: SparkSession, tmp_path: Path, query: Callable[[DataFrame], DataFrame], by_spark: int
) -> None:
    """Spark drops them behind the aggregation that each task does of its own rows, and counts what is left of them."""
    stream = make_stream(spark, tmp_path, BATCHES)
    for mode, dropped in (("off", by_spark), ("require", 9)):
        query_of = attempt(query(stream.read()), tmp_path / mode, mode).query
        assert query_of is not None
        found = [one.stateOperators[0].numRowsDroppedByWatermark for one in query_of.recentProgress if one.numInputRows]
        assert found == [0, 0, 0, dropped]
