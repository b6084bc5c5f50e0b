"""What Spark plans above an operator for its partitions, without a shuffle: joins with static tables, and limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.spark.session import changed
from tests.support.files import WINDOW, counts, stream, table, watermarked, write
from tests.support.ran import Query, ran

Above = Callable[[DataFrame, DataFrame], DataFrame]


def joined(hint: str, how: str) -> Above:
    return lambda rows, names: rows.join(names.hint(hint), "k", how)


def pairs(rows: DataFrame) -> DataFrame:
    others = rows.select(F.col("k").alias("o"), F.col("ts").alias("at"), F.col("v").alias("w"))
    return rows.select("k", "ts", "v").join(others, F.expr("k = o AND ts = at AND v = w"))


CASES: dict[str, tuple[Query, Above, str]] = {
    "groups, merged": (lambda rows: rows.groupBy("k").agg(F.sum("v"), F.max("s")), joined("merge", "left"), "update"),
    "groups, hashed": (lambda rows: rows.groupBy("k").count(), joined("shuffle_hash", "inner"), "update"),
    "sorted groups": (lambda rows: rows.groupBy("k").agg(F.min("s")), joined("merge", "inner"), "complete"),
    "unique rows": (lambda rows: rows.dropDuplicates(["k"]), joined("merge", "left"), "update"),
    "pairs": (pairs, joined("merge", "left"), "append"),
    "windows, by a shuffle": (counts, joined("merge", "left"), "append"),
    "windows of what was joined": (
        lambda rows: rows.dropDuplicates(["k"]),
        lambda rows, names: rows.join(names.hint("merge"), ["k"]).groupBy(F.window("ts", WINDOW), "name").count(),
        "append",
    ),
}


@pytest.mark.parametrize("driver_bytes", ["0", "16m"])
@pytest.mark.parametrize("name", CASES)
def test_rows_come_to_the_partitions_that_are_planned(
    spark: SparkSession, tmp_path: Path, name: str, driver_bytes: str
) -> None:
    query, above, output = CASES[name]
    folder = write(tmp_path / "in", [table(batch) for batch in range(3)])
    names = spark.createDataFrame([(key, f"name {key}") for key in range(4)], "k bigint, name string")
    results = {
        mode: ran(
            watermarked(stream(spark, folder)),
            tmp_path,
            lambda rows: above(query(rows), names),
            output,
            mode,
            **{"merge.driverBytes": driver_bytes},
        ).batches
        for mode in ("off", "require")
    }
    assert sum(map(len, results["off"])) >= 3
    assert results["require"] == results["off"]


def all_pairs(rows: DataFrame) -> DataFrame:
    others = rows.select(F.col("k").alias("o"), F.col("ts").alias("at"))
    return rows.select("k", "ts").join(others, F.expr("k = o AND ts = at"), "fullouter")


LIMITED: dict[str, Query] = {
    "windows": counts,
    "windows without their keys": lambda rows: counts(rows).select("count(1)"),
    "unique rows": lambda rows: rows.dropDuplicates(["k", "v"]),
    "pairs of all rows": all_pairs,
}


@pytest.mark.parametrize("name", LIMITED)
def test_a_limit_takes_so_many_rows_of_all(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Its count is in Spark's store, one for each partition."""
    folder = write(tmp_path / "in", [table(batch) for batch in range(3)])
    with changed(spark, {"spark.sql.shuffle.partitions": "1"}):
        found, expected = (
            ran(
                watermarked(stream(spark, folder)),
                tmp_path,
                lambda rows: LIMITED[name](rows).limit(3),
                "append",
                mode,
                **{"merge.driverBytes": "0"},
            )
            for mode in ("require", "off")
        )
    assert [len(batch) for batch in found.batches] == [len(batch) for batch in expected.batches]
    assert sum(map(len, expected.batches)) == 3
