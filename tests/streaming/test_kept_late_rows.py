"""`spark.slash.late` has the rows that plain Spark drops, each of them once: those whose numbers it never gives."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.attempt import attempt
from tests.support.example import run_example
from tests.support.nightly import some_at_night
from tests.support.ran import ran
from tests.support.stream import Stream, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("n", pa.int64())])
END = 100_000


def made(spark: SparkSession, folder: Path, seed: int) -> Stream:
    """Rows with numbers of their own: some late, some without a time. The last one moves the watermark past all."""
    folder.mkdir()
    stream, generator = Stream(spark, folder, SCHEMA, delay_seconds=10), random.Random(seed)
    for batch in range(5):
        at, first = 1000 + 15 * batch, 1000 * seed + 100 * batch

        def time(at: int = at) -> float:
            return at + (generator.uniform(-60, -10) if generator.random() < 0.3 else generator.uniform(-8, 8))

        times = [None if generator.random() < 0.05 else seconds(round(time(), 3)) for _ in range(80)]
        keys = [generator.choice((1, 2, 3)) for _ in times]
        stream.add(pa.table([times, keys, range(first, first + 80)], SCHEMA))
    stream.add(pa.table([[seconds(END)], [0], [-1]], SCHEMA))
    return stream


def in_windows(rows: DataFrame, *window: str) -> DataFrame:
    odd = rows.where("n % 7 <> 0").withColumn("odd", F.col("n") % 2)
    return odd.groupBy(F.window("ts", *window), "odd").agg(F.collect_list("n").alias("n"))


def of_a_union(rows: DataFrame) -> DataFrame:
    return in_windows(rows.where("k IN (0, 1)").union(rows.where("k IN (0, 2)")), "5 seconds")


QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "windows": lambda rows: in_windows(rows, "5 seconds"),
    "sliding windows": lambda rows: in_windows(rows, "7 seconds", "3 seconds"),
    "windows of a union": of_a_union,
    "dropDuplicates": lambda rows: rows.dropDuplicates(["n", "ts"]).select(F.array("n").alias("n")),
    "dropDuplicatesWithinWatermark": (
        lambda rows: rows.dropDuplicatesWithinWatermark(["n"]).select(F.array("n").alias("n"))
    ),
}


def taken_by(name: str, row: Any) -> bool:
    """Whether a row reaches the operator: rows without a time are in no window."""
    if "dropDuplicates" in name:
        return True
    return row["ts"] is not None and row["n"] % 7 != 0 and (name != "windows of a union" or row["k"] in (1, 2))


def dropped(stream: Stream, given: set[int], taken: Callable[[Any], bool] = lambda _: True) -> set[int]:
    """The numbers of the rows that were taken, and not given."""
    rows = [row for batch in stream.batches[:-1] for row in batch.to_pylist()]
    return {row["n"] for row in rows if taken(row)} - given


def numbers(batches: list[list[Any]], name: str = "n") -> set[int]:
    """Those that a query has given."""
    found = [row[name] for batch in batches for row in batch]
    return {number for one in found for number in (one if isinstance(one, list) else [one])} - {None, -1}


@pytest.mark.parametrize("name", some_at_night(QUERIES, {"windows", "dropDuplicatesWithinWatermark"}))
def test_a_folder_has_the_rows_that_spark_drops(spark: SparkSession, tmp_path: Path, name: str) -> None:
    stream, late = made(spark, tmp_path / "s", 1), tmp_path / "late"
    expected = ran(stream.read(), stream.folder, QUERIES[name], "append", "off")
    found = ran(stream.read(), stream.folder, QUERIES[name], "append", "require", late=str(late))
    assert found.batches == expected.batches
    rows = spark.read.parquet(str(late)).collect()
    missing = dropped(stream, numbers(expected.batches), lambda row: taken_by(name, row))
    assert len(missing) > 10
    assert sorted(row["n"] for row in rows) == sorted(missing)
    assert {row["epoch"] for row in rows} == {one["epoch"] for one in found.progress if one["late_rows"]}
    times = {row["n"]: row["ts"] for batch in stream.batches for row in batch.to_pylist()}
    for row in rows:
        assert row["_slash_late_ms"] >= 0
        assert times[row["n"]] <= row["_slash_watermark"].astimezone(times[row["n"]].tzinfo)
        assert (row["operator"], row["input"]) == (0, 0)


def test_columns_may_be_called_as_folders_are(spark: SparkSession, tmp_path: Path) -> None:
    """Spark takes the folder's value for such a column's, whatever the file has."""
    stream, late = made(spark, tmp_path / "rows", 4), tmp_path / "late"
    named = stream.read().withColumnRenamed("k", "Query").withColumnRenamed("n", "epoch")
    tried = attempt(
        named.groupBy(F.window("ts", "5 seconds"), "Query").agg(F.sum("epoch")), tmp_path / "checkpoint", late=str(late)
    )
    assert tried.error is None
    rows = spark.read.parquet(str(late)).collect()
    assert {row["Query_"] for row in rows} == {1, 2, 3}
    assert all(4000 <= row["epoch_"] < 4500 for row in rows)


def test_columns_may_have_one_name(spark: SparkSession, tmp_path: Path) -> None:
    """But for upper and lower case, or with those of late rows. Spark writes no such table."""
    stream, late = made(spark, tmp_path / "rows", 4), tmp_path / "late"
    n = F.col("n")
    named = stream.read().select("ts", n, (n + 1).alias("N"), (n + 2).alias("n_1"), (n + 3).alias("_Slash_late_ms"))
    tried = attempt(named.dropDuplicates(["ts", "_Slash_late_ms"]), tmp_path / "checkpoint", late=str(late))
    assert tried.error is None
    rows = spark.read.parquet(str(late)).collect()
    assert len(rows) > 10
    for row in rows:
        assert (row["N_2"], row["n_1"], row["_Slash_late_ms_1"]) == (row["n"] + 1, row["n"] + 2, row["n"] + 3)
        assert 0 <= row["_slash_late_ms"] < 1e6


def test_of_sessions_those_that_would_have_been_over(spark: SparkSession, tmp_path: Path) -> None:
    stream, late = made(spark, tmp_path / "s", 1), tmp_path / "late"

    def sessions(rows: DataFrame) -> DataFrame:
        by_key = rows.groupBy(F.session_window("ts", "4 seconds"), "k")
        return by_key.agg(F.sum("n").alias("s"), F.count("*").alias("c"))

    expected = ran(stream.read(), stream.folder, sessions, "append", "off")
    found = ran(stream.read(), stream.folder, sessions, "append", "require", late=str(late))
    assert found.batches == expected.batches
    rows = [row["n"] for row in spark.read.parquet(str(late)).collect()]
    every = dropped(stream, set(), lambda row: row["ts"] is not None)
    given = [(row["s"], row["c"]) for batch in expected.batches for row in batch]
    assert len(rows) > 10
    assert sum(rows) == sum(every) - sum(total for total, _ in given)
    assert len(rows) == len({*rows}) == len(every) - sum(count for _, count in given)


def test_of_a_join_each_side_has_its_own(spark: SparkSession, tmp_path: Path) -> None:
    left, right = made(spark, tmp_path / "left", 1), made(spark, tmp_path / "right", 2)
    late = tmp_path / "late"

    def joined(rows: DataFrame) -> DataFrame:
        others = right.read().select(*(F.col(name).alias(f"r_{name}") for name in SCHEMA.names))
        near = F.expr("k = r_k AND r_ts BETWEEN ts - INTERVAL 2 SECONDS AND ts + INTERVAL 2 SECONDS")
        return rows.join(others, near, "full_outer")

    expected = ran(left.read(), left.folder, joined, "append", "off")
    found = ran(left.read(), left.folder, joined, "append", "require", late=str(late))
    assert found.batches == expected.batches
    for number, (side, name) in enumerate(((left, "n"), (right, "r_n"))):
        rows = spark.read.parquet(str(next(late.glob(f"query=*/operator=0/input={number}")))).collect()
        missing = dropped(side, numbers(expected.batches, name), lambda row: row["ts"] is not None)
        assert sorted(row[name] for row in rows) == sorted(missing)
        assert len(missing) > 10
        for one in found.progress:
            in_epoch = sum(row["epoch"] == one["epoch"] for row in rows)
            assert (one["late_by_input"] or [0, 0])[number] == in_epoch


def test_an_epoch_that_is_repeated_has_them_once(spark: SparkSession, tmp_path: Path) -> None:
    stream, late = made(spark, tmp_path / "s", 1), tmp_path / "late"
    query = QUERIES["windows"]
    for failing in (2, 3):
        failed = attempt(query(stream.read()), tmp_path / "c", fail_in=failing, late=str(late))
        assert "the sink is out of order" in str(failed.error)
    assert attempt(query(stream.read()), tmp_path / "c", late=str(late)).error is None
    given = ran(stream.read(), stream.folder, query, "append", "off").batches
    missing = dropped(stream, numbers(given), lambda row: taken_by("windows", row))
    assert sorted(row["n"] for row in spark.read.parquet(str(late)).collect()) == sorted(missing)


def put_back(spark: SparkSession, folder: Path, **kept: str) -> list[int]:
    """The late rows of a query whose checkpoint was put back to a copy: those since then come in one micro-batch, and
    most of them in time.
    """
    stream, checkpoint = Stream(spark, folder, SCHEMA, delay_seconds=10), folder / "c"

    def comes(*rows: tuple[int, int]) -> None:
        times, numbers = zip(*rows, strict=True)
        stream.add(pa.table([[seconds(at) for at in times], [1] * len(rows), numbers], SCHEMA))

    def runs(files_a_batch: int) -> None:
        source = spark.readStream.schema(spark.read.parquet(str(folder / "in")).schema)
        rows = source.option("maxFilesPerTrigger", files_a_batch).parquet(str(folder / "in"))
        windows = rows.withWatermark("ts", "10 seconds").groupBy(F.window("ts", "5 seconds"))
        assert attempt(windows.agg(F.collect_list("n")), checkpoint, **kept).error is None

    comes((1000, 0))
    comes((1100, 1))
    runs(1)
    shutil.copytree(checkpoint, folder / "copy")
    comes((1001, 2))
    comes((1200, 3))
    comes((1101, 4), (1150, 5), (1000, 6))
    comes((1102, 7))
    runs(1)
    shutil.rmtree(checkpoint)
    shutil.copytree(folder / "copy", checkpoint)
    runs(4)
    comes((END, 8))
    runs(1)
    return [2, 6]


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_a_checkpoint_that_is_put_back_has_them_once(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    late = tmp_path / "late"
    expected = put_back(spark, tmp_path, late=str(late), late_format=kind)
    rows = spark.read.format(kind).load(str(late)).collect()
    assert sorted(row["n"] for row in rows) == expected


KILLED = """
import os, signal, sys
from pyspark.sql import SparkSession, functions as F
import pyslash
from pyslash.driver.late.late_rows import LateRows

source, folder, when = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.slash.late", f"{folder}/late")
spark.conf.set("spark.slash.mode", "require")
pyslash.enable(spark)
kept = LateRows.keep

def keep(*call):
    if when == "before":
        os.killpg(0, signal.SIGKILL)
    kept(*call)
    if when == "after":
        os.killpg(0, signal.SIGKILL)

LateRows.keep = keep
rows = spark.readStream.schema("ts timestamp, k long, n long").option("maxFilesPerTrigger", 1).parquet(source)
windows = rows.withWatermark("ts", "10 seconds").where("n % 7 <> 0").groupBy(F.window("ts", "5 seconds"))
query = windows.agg(F.collect_list("n").alias("n")).writeStream.format("parquet").option("path", f"{folder}/out")
query.option("checkpointLocation", f"{folder}/c").trigger(availableNow=True).start().awaitTermination()
"""


@pytest.mark.nightly
def test_a_driver_that_is_killed_around_them_has_them_once(spark: SparkSession, tmp_path: Path) -> None:
    stream, late = made(spark, tmp_path / "s", 1), tmp_path / "late"

    def job(when: str) -> int:
        command = [sys.executable, "-c", KILLED, str(tmp_path / "s" / "in"), str(tmp_path), when]
        return subprocess.run(command, check=False, timeout=600, start_new_session=True).returncode

    assert [job(when) for when in ("before", "after", "never")] == [-signal.SIGKILL, -signal.SIGKILL, 0]
    given = spark.read.parquet(str(tmp_path / "out")).collect()
    missing = dropped(stream, numbers([given]), lambda row: taken_by("windows", row))
    assert sorted(row["n"] for row in spark.read.parquet(str(late)).collect()) == sorted(missing)


def test_a_folder_that_cannot_be_written_ends_the_query_and_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    stream, late = made(spark, tmp_path / "s", 1), tmp_path / "late"
    late.write_text("a file")
    query = QUERIES["windows"]
    given: list[list[Any]] = []
    with pytest.raises(StreamingQueryException, match=r"LateRowsError: the late rows of epoch \d+ cannot be written"):
        ran(stream.read(), stream.folder, query, "append", "require", given, late=str(late))
    late.unlink()
    ran(stream.read(), stream.folder, query, "append", "require", given, late=str(late))
    assert given == ran(stream.read(), stream.folder, query, "append", "off").batches
    missing = dropped(stream, numbers(given), lambda row: taken_by("windows", row))
    assert sorted(row["n"] for row in spark.read.parquet(str(late)).collect()) == sorted(missing)


def test_the_example_says_which_clicks_came_too_late(spark: SparkSession, tmp_path: Path) -> None:
    clicks = [
        [(0, 1, "a"), (3600, 2, "a")],
        [(3605, 3, "b")],
        [(10, 4, "b"), (3001, 5, "b"), (3610, 6, "b")],
        [(99_999, 7, "c")],
    ]
    kinds = pa.schema([("clicked_at", pa.timestamp("us", "UTC")), ("user", pa.int64()), ("page", pa.string())])
    stream = Stream(spark, tmp_path, kinds, 600)
    for batch in clicks:
        times, users, pages = zip(*batch, strict=True)
        stream.add(pa.table([list(map(seconds, times)), users, pages], kinds))
    late = tmp_path / "late"
    output = run_example("late_clicks.py", tmp_path / "in", tmp_path / "job", "--late", str(late))
    found = spark.read.parquet(str(late)).select("page", "_slash_late_ms").collect()
    assert [tuple(row) for row in found] == [("b", 3_000_000 - 60_000)]  # from its window's end to the watermark
    assert sum(row["clicks"] for row in spark.read.parquet(str(output)).collect()) == 5
