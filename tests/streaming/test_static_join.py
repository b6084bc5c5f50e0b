"""A stream joined with static tables: natively where a broadcast join finds one row a key, else by Spark.

Spark plans such a query adaptively, in stages, and the watermark lies inside one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.conf import Conf
from pyslash.ingest.only_spark import OnlySpark
from pyslash.ingest.static_join import StaticJoin, StaticTables
from pyslash.ingest.update_job import Ingest
from pyslash.plan.catalyst import JavaObject
from pyslash.plan.spec import ANY_WINDOW, PlanSpec
from pyslash.spark.jvm_bridge import JvmBridge
from tests.support.attempt import BATCHES, attempt, make_stream, settings
from tests.support.files import WINDOW, ran, same_as_spark, stream, table, watermarked, write
from tests.support.nightly import some_at_night
from tests.support.stream import Stream, differences, run, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])

Tables = dict[str, DataFrame]
Joined = Callable[[DataFrame, Tables], DataFrame]


@cache
def tables(spark: SparkSession) -> Tables:
    """Static tables by what they are joined on: `k` 0 to 5 of 0 to 6, and a null, which joins nothing."""
    ids = [(number, f"name {number % 4}", number * 10) for number in range(6)]
    days = [(date(2024, 1, 1 + number), f"name {number}", number) for number in range(11)]
    return {
        "k": spark.createDataFrame([*ids, (None, "nothing", -1)], "k bigint, label string, weight int"),
        "s": spark.createDataFrame([(f"name {number}", number / 8) for number in range(9)], "s string, share double"),
        "n": spark.createDataFrame([(Decimal(n) / 2, n % 3 == 0) for n in range(150)], "n decimal(9,2), third boolean"),
        "d, s": spark.createDataFrame(days, "d date, s string, both int"),
        "s, s": spark.createDataFrame([("name 1", 1), ("name 1", 2)], "s string, twice int"),
        "small": spark.sql("SELECT * FROM VALUES (1L, 'one'), (2L, 'two'), (4L, 'four') AS t(k, label)"),
        "x": spark.createDataFrame([(float(number), number) for number in range(400)], "x double, whole int"),
    }


def by(rows: DataFrame, *keys: str) -> DataFrame:
    """Windows of the joined rows."""
    return rows.groupBy(F.window("ts", WINDOW), *keys).agg(F.count("*"), F.sum("v"), F.max("s"))


QUERIES: dict[str, tuple[Joined, str]] = {
    "above the watermark": (lambda rows, t: by(watermarked(rows).join(F.broadcast(t["k"]), "k"), "label"), "files"),
    "below the watermark": (lambda rows, t: by(watermarked(rows.join(F.broadcast(t["k"]), "k")), "label"), "files"),
    "from the left": (lambda rows, t: by(F.broadcast(t["k"]).join(watermarked(rows), "k"), "k", "label"), "files"),
    "rows without one are kept": (
        lambda rows, t: by(watermarked(rows).join(F.broadcast(t["k"]), "k", "left"), "k", "label"),
        "files",
    ),
    "rows without one are kept from the right": (
        lambda rows, t: by(F.broadcast(t["k"]).join(watermarked(rows), "k", "right"), "k", "label"),
        "files",
    ),
    "rows without one are kept below the watermark": (
        lambda rows, t: by(watermarked(rows.join(F.broadcast(t["s"]), "s", "left")), "share"),
        "files",
    ),
    "a column of the table is aggregated": (
        lambda rows, t: (
            watermarked(rows).join(F.broadcast(t["k"]), "k").groupBy(F.window("ts", WINDOW)).agg(F.sum("weight"))
        ),
        "files",
    ),
    "by nothing of the table": (lambda rows, t: by(watermarked(rows).join(F.broadcast(t["k"]), "k"), "k"), "files"),
    "by a string with nulls": (
        lambda rows, t: by(watermarked(rows).join(F.broadcast(t["s"]), "s"), "share"),
        "files",
    ),
    "by a decimal": (lambda rows, t: by(watermarked(rows).join(F.broadcast(t["n"]), "n"), "third"), "files"),
    "by two keys": (lambda rows, t: by(watermarked(rows).join(F.broadcast(t["d, s"]), ["d", "s"]), "both"), "files"),
    "two tables": (
        lambda rows, t: by(
            watermarked(rows.join(F.broadcast(t["k"]), "k", "left")).join(F.broadcast(t["s"]), "s"), "label", "share"
        ),
        "files",
    ),
    "with filters and other names": (
        lambda rows, t: by(
            watermarked(rows.where("v < 300").withColumnRenamed("k", "was"))
            .join(F.broadcast(t["k"].where("weight > 10").withColumnRenamed("label", "l")), F.expr("was = k"))
            .where("b and weight < 50"),
            "l",
        ),
        "files",
    ),
    "a table of no rows": (
        lambda rows, t: by(watermarked(rows).join(F.broadcast(t["k"].where("weight > 1000")), "k", "left"), "label"),
        "files",
    ),
    "small enough to be broadcast": (
        lambda rows, t: by(watermarked(rows).join(t["small"], "k"), "label"),
        "files",
    ),
    "a key that comes twice": (
        lambda rows, t: by(watermarked(rows).join(F.broadcast(t["s, s"]), "s"), "twice"),
        "rows",
    ),
    "by a floating number": (lambda rows, t: by(watermarked(rows).join(F.broadcast(t["x"]), "x"), "whole"), "rows"),
    "by an expression": (
        lambda rows, t: by(watermarked(rows).join(F.broadcast(t["k"]), F.expr("v % 7 = weight / 10")), "label"),
        "rows",
    ),
    "with another condition": (
        lambda rows, t: by(
            watermarked(rows).join(F.broadcast(t["k"].withColumnRenamed("k", "id")), F.expr("k = id and v > weight")),
            "label",
        ),
        "rows",
    ),
    "filtered by a column of an outer table": (
        lambda rows, t: by(watermarked(rows).join(F.broadcast(t["k"]), "k", "left").where("label is null"), "k"),
        "rows",
    ),
    "half a join": (lambda rows, t: by(watermarked(rows).join(F.broadcast(t["k"]), "k", "left_semi"), "k"), "rows"),
    "by a column of another table": (
        lambda rows, t: by(
            watermarked(rows)
            .join(F.broadcast(t["k"]), "k")
            .join(F.broadcast(t["k"].selectExpr("weight", "label AS other")), "weight"),
            "other",
        ),
        "rows",
    ),
    "by hashes of both sides": (
        lambda rows, t: by(watermarked(rows).join(t["k"].hint("shuffle_hash"), "k"), "label"),
        "rows",
    ),
}


# `make nightly` has them all.
LONG = {
    "from the left",
    "rows without one are kept from the right",
    "a column of the table is aggregated",
    "small enough to be broadcast",
    "by a floating number",
    "by an expression",
    "with another condition",
    "by a column of another table",
    "by hashes of both sides",
}


@pytest.mark.parametrize("name", some_at_night(QUERIES, LONG))
def test_rows_watermark_and_figures_are_spark_s(spark: SparkSession, tmp_path: Path, name: str) -> None:
    query, path = QUERIES[name]
    assert same_as_spark(spark, lambda rows: query(rows, tables(spark)), tmp_path) == {path}


@pytest.mark.parametrize("generated", ["true", "false"])
def test_an_empty_table_moves_the_watermark_only_where_spark_does(
    spark: SparkSession, tmp_path: Path, generated: str
) -> None:
    """Without generated code Spark's join reads no row of the stream then, and sees no event time."""
    empty = tables(spark)["s"].where("share = 42").selectExpr("s AS k")
    rows = make_stream(spark, tmp_path, BATCHES).read().join(F.broadcast(empty), "k")
    query = rows.groupBy(F.window("ts", WINDOW)).count()
    with settings(spark, {"spark.sql.codegen.wholeStage": generated}):
        expected = attempt(query, tmp_path / "spark", "off")
        found = attempt(query, tmp_path / "slash", ingest="files")
    assert found.error is expected.error is None
    assert (found.batches, found.watermarks) == (expected.batches, expected.watermarks)


def test_a_stream_that_is_smaller_than_its_table_is_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Spark broadcasts it then, and what the plan has to read are the table's files."""
    table = str(tmp_path / "table")
    spark.range(20_000).selectExpr("id AS k", "id AS v", "concat('name ', id) AS label").write.parquet(table)

    def query(rows: DataFrame) -> DataFrame:
        return (
            watermarked(rows)
            .drop("v")
            .join(spark.read.parquet(table), "k")
            .groupBy(F.window("ts", WINDOW), "label")
            .sum("v")
        )

    assert same_as_spark(spark, query, tmp_path) == {"rows"}


def test_windows_close_behind_a_broadcast_join(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=1)
    for batch in range(3):
        times = [seconds(1000 + 10 * batch + i / 10) for i in range(100)]
        stream.add(pa.table({"ts": times, "k": [i % 7 for i in range(100)]}, SCHEMA))
    names = spark.range(5).select(F.col("id").alias("k"), F.concat(F.lit("name "), "id").alias("name"))
    window = F.window("ts", "10 seconds")
    joined = stream.read().join(F.broadcast(names), "k").groupBy(window, "name").count()
    outcome = run(joined, tmp_path)
    assert {epoch["ingest"] for epoch in outcome.progress} == {"rows", "none"}
    batches = [spark.read.parquet(str(tmp_path / "in" / f"{index:04d}.parquet")) for index in range(2)]
    rows = batches[0].unionByName(batches[1])
    expected = rows.join(names, "k").groupBy(window, "name").count().collect()
    assert len(expected) == 10
    assert list(differences(outcome.rows, expected, 1)) == []


def scan_of(table: DataFrame, is_same: bool = False) -> SimpleNamespace:
    """A scan that knows a table, of which it can be told that it has not changed, or cannot."""
    source = SimpleNamespace(rows=lambda: table._jdf, isSameAs=lambda _: is_same)
    return SimpleNamespace(table=lambda session, number: source)


def static_table(table: DataFrame) -> JavaObject:
    """The JVM's view of a static table, as one micro-batch has it."""
    bridge = JvmBridge(table.sparkSession).java
    return bridge.staticTable(table.sparkSession._jsparkSession, table._jdf.queryExecution().optimizedPlan())


def test_a_table_over_files_is_the_same_until_they_change(spark: SparkSession, tmp_path: Path) -> None:
    path, now = tmp_path / "names.parquet", time.time()

    def seen(condition: str = "true", age: int = 3600) -> JavaObject:
        os.utime(path, (now - age,) * 2)
        return static_table(spark.read.parquet(str(path)).where(condition))

    def write_names(*names: str) -> None:
        pq.write_table(pa.table({"k": list(range(len(names))), "name": list(names)}), path)

    write_names("a", "b")
    first = seen()
    assert seen().isSameAs(first)
    assert not seen("name = 'a'").isSameAs(first)
    assert not seen(age=3500).isSameAs(first)
    assert not seen("k + rand() < 9").isSameAs(seen("k + rand() < 9"))
    young = seen(age=5)
    assert not static_table(spark.read.parquet(str(path))).isSameAs(young), "it may have been written twice in a tick"
    write_names("a", "b", "c")
    assert not seen().isSameAs(first)
    gone = spark.read.parquet(str(path))
    path.unlink()
    assert not static_table(gone).isSameAs(first)


def test_constants_are_the_same_and_computed_rows_may_not_be(spark: SparkSession) -> None:
    constants = [spark.sql("SELECT * FROM VALUES (1, 'a') AS t(k, name)") for _ in range(2)]
    assert static_table(constants[0]).isSameAs(static_table(constants[1]))
    computed = spark.createDataFrame([(1, "a")], "k int, name string")
    assert not static_table(computed).isSameAs(static_table(computed))


def test_a_table_is_sent_again_when_its_rows_have_changed(spark: SparkSession) -> None:
    join = StaticJoin(late=True, outer=False, keys=[("k", "bigint")], columns=["bigint", "string"], table_keys=[0])
    sent = StaticTables()

    def send(rows: str) -> StaticJoin:
        frame = spark.sql(f"SELECT * FROM VALUES {rows} AS t(k, label)").selectExpr("CAST(k AS bigint)", "label")
        (filled,) = sent.send(spark, scan_of(frame), [join])
        return filled

    first = send("(1, 'a'), (2, 'b'), (NULL, 'c')")
    assert send("(1, 'a'), (2, 'b'), (NULL, 'd')").table is first.table
    rows = pa.record_batch({"k": pa.array([2, None, 3, 2, 1], pa.int64())})
    assert first.apply(rows, 0, {"0.0", "0.1"})["0.1"].to_pylist() == ["b", "b", "a"]
    other = send("(1, 'a'), (2, 'x')")
    assert other.table is not first.table
    assert other.apply(rows, 0, {"0.1"}).to_pydict() == {"k": [2, 2, 1], "0.1": ["x", "x", "a"]}
    assert [is_there(join) for join in (first, other)] == [False, True]
    with pytest.raises(OnlySpark, match="one row a key"):
        send("(1, 'a'), (1, 'x')")
    assert is_there(other)
    sent.close()
    assert not is_there(other)
    sent.close()


@pytest.mark.parametrize("is_same", [True, False], ids=["known to be the same", "with the same rows"])
def test_a_table_is_looked_up_by_the_keys_of_this_micro_batch(spark: SparkSession, is_same: bool) -> None:
    """The number of a join in the plan does not say which of the table's columns it is by."""
    table, sent = spark.sql("SELECT * FROM VALUES (1L, 2L), (2L, 3L) AS t(a, b)"), StaticTables()
    rows, found = pa.record_batch({"k": pa.array([2], pa.int64())}), []
    for key in (0, 1):
        join = StaticJoin(True, False, [("k", "bigint")], columns=["bigint", "bigint"], table_keys=[key])
        (filled,) = sent.send(spark, scan_of(table, is_same), [join])
        found += filled.apply(rows, 0, {"0.0", "0.1"}).to_pylist()
    assert found == [{"k": 2, "0.0": 2, "0.1": 3}, {"k": 2, "0.0": 1, "0.1": 2}]
    sent.close()


def is_there(join: StaticJoin) -> bool:
    """Whether the join's table can still be read, here and in executors."""
    assert join.table is not None
    there = bool(join.table._jbroadcast.isValid())
    assert Path(join.table._path).exists() == there
    return there


def test_a_closed_ingest_takes_back_its_tables(spark: SparkSession) -> None:
    join = StaticJoin(late=True, outer=False, keys=[("k", "bigint")], columns=["bigint"], table_keys=[0])
    ingest = Ingest(spark, PlanSpec(window=ANY_WINDOW), Conf.read(spark.conf.get), bytes(16), b"")
    (filled,) = ingest._static_tables.send(spark, scan_of(spark.range(3)), [join])
    assert is_there(filled)
    ingest.close()
    assert not is_there(filled)


def test_a_table_that_is_too_large_is_left_to_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyslash.ingest.static_join.MOST_TABLE_BYTES", 4000)
    join = StaticJoin(late=True, outer=False, keys=[("k", "bigint")], columns=["bigint"], table_keys=[0])
    with pytest.raises(OnlySpark, match="8000 bytes"):
        StaticTables().send(spark, scan_of(spark.range(1000)), [join])


def test_a_table_that_cannot_be_collected_is_left_to_spark(spark: SparkSession) -> None:
    """Spark says what is wrong with it, or broadcasts it all the same."""
    join = StaticJoin(late=True, outer=False, keys=[("k", "bigint")], columns=["bigint"], table_keys=[0])
    key = F.when(F.col("id") < 2, F.col("id")).otherwise(F.raise_error(F.lit("no row"))).alias("k")
    with pytest.raises(OnlySpark, match="cannot be collected"):
        StaticTables().send(spark, scan_of(spark.range(3).select(key)), [join])


def test_a_table_that_a_function_computes_may_have_changed(spark: SparkSession, tmp_path: Path) -> None:
    path, hour_ago = tmp_path / "names.parquet", time.time() - 3600
    pq.write_table(pa.table({"k": [1, 2]}), path)
    os.utime(path, (hour_ago,) * 2)
    look_up = F.udf(lambda k: f"name {k}")
    rows = spark.read.parquet(str(path))
    for computed in (rows.select("k", look_up("k").alias("name")), rows.mapInArrow(lambda some: some, "k bigint")):
        assert not static_table(computed).isSameAs(static_table(computed))
    assert static_table(rows).isSameAs(static_table(rows))


@pytest.mark.parametrize("folder", ["my names", "hour=2024-01-01 00%3A00"])
def test_a_table_is_known_again_whatever_its_folder_is_called(spark: SparkSession, tmp_path: Path, folder: str) -> None:
    path, hour_ago = tmp_path / folder / "names.parquet", time.time() - 3600
    path.parent.mkdir()
    pq.write_table(pa.table({"k": [1, 2]}), path)
    os.utime(path, (hour_ago,) * 2)
    read = str(path.parent if " n" in folder else tmp_path)
    first, second = (static_table(spark.read.parquet(read)) for _ in range(2))
    assert second.isSameAs(first)


def test_what_is_observed_of_a_table_is_sparks(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path / "in", [table(batch) for batch in range(3)])
    names = tables(spark)["k"].observe("names", F.count("*").alias("rows"), F.max("weight").alias("most"))

    def query() -> DataFrame:
        return by(watermarked(stream(spark, folder)).join(F.broadcast(names), "k"), "label")

    (_, plain, _), (_, ours, _) = (ran(query(), tmp_path, **conf) for conf in ({"mode": "off"}, {"ingest": "files"}))
    observed = [[json.loads(entry.json).get("observedMetrics") for entry in progress] for progress in (plain, ours)]
    assert observed[0][0]["names"]["rows"] > 0
    assert observed[1] == observed[0]
