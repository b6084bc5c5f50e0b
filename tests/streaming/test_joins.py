"""Joins of two streams against plain Spark over the same micro-batches: types of joins, conditions, restarts."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.driver.start import hook
from pyslash.spark.release import is_from
from tests.support.attempt import settings
from tests.support.example import run_example
from tests.support.nightly import some_at_night
from tests.support.ran import Ran, ran
from tests.support.stream import Stream, in_order, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64()), ("name", pa.string())])
Join = Callable[[DataFrame, DataFrame], DataFrame]


def add(stream: Stream, generator: random.Random, at: float, rows: int = 60, keys: int = 12) -> None:
    """Rows around a time, out of order: some late, some without a time, a key or a value."""

    def row() -> tuple[object, ...]:
        late = generator.random() < 0.15
        time = at + (generator.uniform(-60, -15) if late else generator.uniform(-12, 12))
        return (
            None if generator.random() < 0.03 else seconds(round(time, generator.choice((0, 3)))),
            generator.choice((None, *range(keys))),
            generator.choice((None, *range(20))),
            generator.choice((None, "", "a", "a much longer name")),
        )

    table = [row() for _ in range(rows)]
    stream.add(pa.table([[row[i] for row in table] for i in range(4)], SCHEMA))


def made(spark: SparkSession, folder: Path, seed: int = 7, batches: int = 5) -> tuple[Stream, Stream]:
    """Both sides, with as many micro-batches."""
    generator = random.Random(seed)
    sides = []
    for side in ("left", "right"):
        (folder / side).mkdir(exist_ok=True)
        stream = Stream(spark, folder / side, SCHEMA, delay_seconds=10)
        for batch in range(batches):
            add(stream, generator, 1000 + 15 * batch)
        sides.append(stream)
    return sides[0], sides[1]


def sides(left: DataFrame, right: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Columns that differ in their names."""
    return left, right.select(*(F.col(name).alias(f"r_{name}") for name in right.columns))


def within(how: str) -> Join:
    """Rows of a key of which the right one comes some seconds before or after the left one."""

    def join(left: DataFrame, right: DataFrame) -> DataFrame:
        left, right = sides(left, right)
        near = F.expr(
            "k = r_k AND r_ts BETWEEN ts - INTERVAL 8 SECONDS AND ts + INTERVAL 13 SECONDS AND (v + r_v) % 3 > 0"
        )
        return left.join(right, near, how)

    return join


def of_window(how: str) -> Join:
    """Rows of a key and of the same window."""

    def join(left: DataFrame, right: DataFrame) -> DataFrame:
        window = F.window("ts", "10 seconds").alias("w")
        left, right = sides(*(side.select(window, "k", "v", "name") for side in (left, right)))
        return left.join(right, F.expr("k = r_k AND w = r_w AND v >= r_v AND v > 3 AND r_v > 0"), how)

    return join


def run(spark: SparkSession, folder: Path, join: Join, mode: str, output: str = "append", **conf: str) -> Ran:
    """With two homes, however few rows there are."""
    conf = {"merge.driverBytes": "0", **conf}
    left, right = (Stream(spark, folder / side, SCHEMA, 10).read() for side in ("left", "right"))
    return ran(left, folder, lambda rows: join(rows, right), output, mode, **conf)


JOINS = {
    **{f"{how} within": within(how) for how in ("inner", "left_outer", "right_outer", "full_outer", "left_semi")},
    **{f"{how} of a window": of_window(how) for how in ("inner", "full_outer", "left_semi")},
}


# Random streams join in all of these ways.
LONG = {*JOINS} - {"left_outer within", "full_outer of a window"}


@pytest.mark.parametrize("name", some_at_night(JOINS, LONG))
def test_micro_batches_are_sparks(spark: SparkSession, tmp_path: Path, name: str) -> None:
    join = JOINS[name]
    made(spark, tmp_path)
    expected = run(spark, tmp_path, join, "off")
    assert sum(map(len, expected.batches)) > 20
    assert run(spark, tmp_path, join, "require").batches == expected.batches


def test_update_mode_is_append_mode_where_spark_has_it(spark: SparkSession, tmp_path: Path) -> None:
    made(spark, tmp_path, batches=2)
    try:
        expected = run(spark, tmp_path, within("inner"), "off", "update")
    except AnalysisException:
        assert not spark.version.startswith("4.3.")
        return
    assert any(expected.batches)
    assert run(spark, tmp_path, within("inner"), "require", "update").batches == expected.batches


@pytest.mark.parametrize("durability", [pytest.param("off", marks=pytest.mark.nightly), "checkpoint"])
def test_a_query_that_starts_again_goes_on_with_its_rows_and_knows_which_have_joined(
    spark: SparkSession, tmp_path: Path, durability: str
) -> None:
    left, right = made(spark, tmp_path, batches=3)
    generator = random.Random(3)
    for start in range(2):
        expected = run(spark, tmp_path, within("full_outer"), "off")
        found = run(spark, tmp_path, within("full_outer"), "require", durability=durability)
        assert found.batches == expected.batches
        assert any(found.batches)
        assert {epoch["merged_by"] for epoch in found.progress} == {"2 homes"}
        assert all(epoch["merge_task_ms"] > 0 for epoch in found.progress)
        hook._sweep()
        for stream in (left, right):
            add(stream, generator, 1047 + 10 * start)


def test_names_of_what_a_condition_reads_twice_are_no_change_of_the_query(spark: SparkSession, tmp_path: Path) -> None:
    near = "k = r_k AND r_ts BETWEEN ts AND ts + INTERVAL 13 SECONDS AND r_v % 7 BETWEEN v - 9 AND v"

    def join(left: DataFrame, right: DataFrame) -> DataFrame:
        left, right = sides(left, right)
        return left.join(right, F.expr(near))

    left, right = made(spark, tmp_path, batches=3)
    generator = random.Random(4)
    for _ in range(2):
        expected = run(spark, tmp_path, join, "off").batches
        assert run(spark, tmp_path, join, "require").batches == expected
        assert any(expected)
        for stream in (left, right):
            add(stream, generator, 1050)
    text = str(pyslash.explain(join(left.read(), right.read())))
    assert "((r_v % 7L) >= (v - 9L))) AND ((r_v % 7L) <= v)" in text


def test_a_semi_join_takes_its_sides_in_sparks_order(spark: SparkSession, tmp_path: Path) -> None:
    """Since 4.2 Spark's new left row does not find a new right row that is evicted at once. A later one gives it."""
    left, right = made(spark, tmp_path, batches=0)

    def add(stream: Stream, *rows: tuple[float, int]) -> None:
        table = [(seconds(at), key, 1, "") for at, key in rows]
        stream.add(pa.table([[row[i] for row in table] for i in range(4)], SCHEMA))

    add(left, (1000, 1)), add(right, (1066, 2))
    add(left, (1046, 7)), add(right, (1040, 7))
    with settings(spark, {"spark.sql.streaming.multipleWatermarkPolicy": "max"}):
        for start in range(2):
            expected = run(spark, tmp_path, within("left_semi"), "off")
            found = run(spark, tmp_path, within("left_semi"), "require", durability="checkpoint")
            assert found.batches == expected.batches
            assert any(found.batches) == (start == (1 if is_from(4, 2) else 0))
            hook._sweep()
            add(left, (1070, 3)), add(right, (1058, 7))


def test_a_result_that_is_read_twice_is_the_same(spark: SparkSession, tmp_path: Path) -> None:
    made(spark, tmp_path, batches=3)
    twice: list[tuple[list[Any], list[Any]]] = []

    def read(rows: DataFrame, _: int) -> None:
        assert rows.isEmpty() in (True, False)  # stops before the end
        twice.append((sorted(rows.collect(), key=repr), sorted(rows.collect(), key=repr)))

    expected = run(spark, tmp_path, within("left_semi"), "off").batches
    left, right = (Stream(spark, tmp_path / side, SCHEMA, 10).read() for side in ("left", "right"))
    pyslash.enable(spark)
    try:
        with settings(spark, {"spark.slash.mode": "require"}):
            writer = within("left_semi")(left, right).writeStream.foreachBatch(read).trigger(availableNow=True)
            assert writer.start().awaitTermination(900)
    finally:
        pyslash.disable()
    assert [first for first, _ in twice] == expected
    assert [second for _, second in twice] == expected


def test_any_type_is_carried_and_sparks_figures_are_near(spark: SparkSession, tmp_path: Path) -> None:
    made(spark, tmp_path, batches=3)

    def nested(left: DataFrame, right: DataFrame) -> DataFrame:
        shape = F.expr("named_struct('a', array(v, NULL), 'm', map(coalesce(name, '-'), v))").alias("shape")
        left, right = (rows.select("ts", "k", shape) for rows in (left, right))
        left, right = sides(left, right)
        return left.join(right, F.expr("k = r_k AND ts = r_ts AND shape.a[0] IS NOT NULL"), "full_outer")

    expected = run(spark, tmp_path, nested, "off")
    found = run(spark, tmp_path, nested, "require")
    assert found.batches == expected.batches
    assert sum(epoch["late_rows"] for epoch in found.progress) > 0


def test_what_is_not_covered_says_why(spark: SparkSession, tmp_path: Path) -> None:
    left, right = (stream.read() for stream in made(spark, tmp_path, batches=1))
    joined = within("inner")(left, right)
    assert "covered, in append mode" in pyslash.explain(joined)
    assert "rows: joined by executors" in pyslash.explain(joined)
    with settings(spark, {"spark.slash.transport": "tcp"}):
        assert "all is brought by their agents: spark.slash.transport=tcp" in pyslash.explain(joined)
    a, b = sides(left, right)
    evicted_never = a.join(b, F.expr("k = r_k AND r_ts BETWEEN ts AND ts + INTERVAL 5 SECONDS AND v > 3"), "left_outer")
    assert "Spark does not evict its rows as the watermark moves" in pyslash.explain(evicted_never)
    of_span = b.withColumn("r_end", F.expr("timestamp_seconds(r_v)"))
    span = F.expr("k = r_k AND ts BETWEEN r_ts AND r_end")
    for how in ("left_outer", "full_outer", "left_semi"):
        assert "Spark evicts rows by another time than their condition bounds" in pyslash.explain(
            a.join(of_span, span, how)
        )
    assert "covered, in append mode" in pyslash.explain(a.join(of_span, span))
    by_another_table = a.join(b, F.expr("ts = r_ts AND k = r_k + (SELECT max(n) FROM VALUES (1) AS t(n))"))
    assert "its condition has a subquery" in pyslash.explain(by_another_table)


def test_a_side_that_goes_by_another_time_than_the_condition_bounds_is_left_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark bounds r_end, and evicts by r_ts: a right row goes long before left rows that it has joined."""

    def join(left: DataFrame, right: DataFrame) -> DataFrame:
        left, right = sides(left, right)
        right = right.withColumn("r_end", F.expr("timestamp_seconds(r_v)"))
        return left.join(right, F.expr("k = r_k AND ts BETWEEN r_ts AND r_end"), "left_outer")

    left, right = made(spark, tmp_path, batches=0)
    for at, (key, value), (other_key, other_value) in (
        (1000, (9, 1), (7, 1600)),
        (1150, (7, 1), (2, 1)),
        (1300, (3, 1), (4, 1)),
        (1310, (5, 1), (6, 1)),
    ):
        left.add(pa.table([[seconds(at)], [key], [value], [""]], SCHEMA))
        right.add(pa.table([[seconds(at)], [other_key], [other_value], [""]], SCHEMA))
    expected = run(spark, tmp_path, join, "off").batches
    assert [row.r_k for batch in expected for row in batch if row.k == 7] == [7]
    assert run(spark, tmp_path, join, "auto", **{"home.size": "1"}).batches == expected


def test_the_example(spark: SparkSession, tmp_path: Path) -> None:
    ads = tmp_path / "ads"
    for name, times in (("impressions", (0, 20, 60, 400)), ("clicks", (5, 29, 75, 401))):
        (ads / name).mkdir(parents=True)
        for number, at in enumerate(times):
            rows = {"impressions": ("shown_at", "ad", "page"), "clicks": ("clicked_at", "of_ad", "user")}[name]
            values = [[seconds(60 * (at + 1440))], [number], [f"{name} {number}"]]
            kinds = [pa.timestamp("us", "UTC"), pa.int64(), pa.string()]
            path = ads / name / f"{number}.parquet"
            pq.write_table(pa.table(values, pa.schema(list(zip(rows, kinds, strict=True)))), path)
            in_order(path, number)
    output = run_example("joins.py", ads, tmp_path)
    clicked = spark.read.parquet(str(output)).orderBy("ad").collect()
    assert [(row.ad, row.page, row.user) for row in clicked] == [
        (0, "impressions 0", "clicks 0"),
        (1, "impressions 1", "clicks 1"),
        (2, "impressions 2", None),
        (3, "impressions 3", "clicks 3"),
    ]
