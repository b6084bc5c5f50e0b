"""A query that is started again over columns of other types, whose values have no type of native code's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.attempt import Attempt, attempt

Query = Callable[[DataFrame], DataFrame]
QUERIES: dict[str, Query] = {
    "a key": lambda rows: rows.groupBy("s").count(),
    "the greatest": lambda rows: rows.groupBy("k").agg(F.max("s")),
    "the first": lambda rows: rows.groupBy("k").agg(F.first("s")),
    "unique": lambda rows: rows.dropDuplicates(["s"]),
}


def run(spark: SparkSession, folder: Path, query: Query, of_struct: str, time: str = "timestamp") -> Attempt:
    """Over a further file of JSON."""
    number = len(list(folder.glob("in/*")))
    (folder / "in").mkdir(exist_ok=True)
    record = {"ts": f"2026-01-01 00:00:0{number}", "k": 1, "s": {"a": number}}
    (folder / "in" / f"{number}.json").write_text(json.dumps(record))
    schema = f"ts {time}, k long, s struct<{of_struct}>"
    rows = spark.readStream.schema(schema).json(str(folder / "in"))
    return attempt(query(rows), folder / "checkpoint", mode="require", output="update")


@pytest.mark.parametrize("name", QUERIES)
def test_other_types_in_a_struct_are_refused(spark: SparkSession, tmp_path: Path, name: str) -> None:
    assert run(spark, tmp_path, QUERIES[name], "a: int").error is None
    changed = run(spark, tmp_path, QUERIES[name], "a: bigint")
    assert "PlanMismatchError" in str(changed.error)
    assert "s: STRUCT<INT> -> STRUCT<BIGINT>" in str(changed.error)
    assert changed.batches == []
    assert (
        run(spark, tmp_path, QUERIES[name], "other: int").error is None
    )  # the names of fields are of no matter, as in Spark


def test_another_type_of_the_event_time_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    query: Query = lambda rows: rows.groupBy(F.window("ts", "10 seconds")).count()  # noqa: E731
    assert run(spark, tmp_path, query, "a: int").error is None
    changed = run(spark, tmp_path, query, "a: int", "timestamp_ntz")
    assert "the event time ts: timestamp -> timestamp_ntz" in str(changed.error)
