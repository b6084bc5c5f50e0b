"""What Spark learns from a micro-batch that pyslash runs: event times, observed and operators' metrics, rows written.

The rows come from text, which native code reads in the place of Spark, and pass operators that keep the plan from being
one stage: so most of the nodes that run are copies of Spark's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.errors import WatermarkError
from pyslash.spark.execution import check_times
from tests.support.stream import in_order, run

SCHEMA = "ts timestamp, k int, v int"
START = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of 20 records, 15 minutes apart, some of them late; the same as JSON and as CSV."""
    root = tmp_path_factory.mktemp("records")
    for kind in ("json", "csv"):
        (root / kind).mkdir()
    for batch in range(4):
        rows = []
        for number in range(20):
            late = timedelta(minutes=30) if batch and number % 7 == 6 else timedelta()
            time = START + timedelta(minutes=15 * batch, seconds=10 * number) - late
            rows.append({"ts": time.isoformat(), "k": number % 3, "v": batch * 20 + number})
        lines = {
            "json": [json.dumps(row) for row in rows],
            "csv": [",".join(map(str, row.values())) for row in rows],
        }
        for kind, found in lines.items():
            path = root / kind / f"{batch}.{kind}"
            path.write_text("\n".join(found) + "\n")
            in_order(path, batch)
    return root


def _stream(spark: SparkSession, folder: Path, kind: str) -> DataFrame:
    reader = spark.readStream.option("maxFilesPerTrigger", 1)
    if kind == "text":
        parsed = reader.text(str(folder / "json")).select(F.from_json("value", SCHEMA).alias("record"))
        return parsed.select("record.*")
    return reader.schema(SCHEMA).format(kind).load(str(folder / kind))


def _observed(rows: DataFrame, name: str) -> DataFrame:
    return rows.observe(name, F.count("*").alias("rows"), F.sum("v").alias("sum"))


def _by_window(rows: DataFrame) -> GroupedData:
    return rows.groupBy(F.window("ts", "5 minutes"), "k")


def _groups(rows: DataFrame) -> DataFrame:
    """Lists, which Spark's own code makes, between two observations; a filter stands above the watermark."""
    timed = _observed(rows, "below").withWatermark("ts", "5 minutes").where("ts > timestamp'2020-01-01'")
    lists = _by_window(timed).agg(F.sort_array(F.collect_list("v")).alias("all"), F.sum("v").alias("v"))
    return _observed(lists, "above")


def _join(rows: DataFrame) -> DataFrame:
    """Rows that find no partner are emitted once the watermark is past them."""
    left = rows.withWatermark("ts", "5 minutes").alias("l")
    right = rows.where("v % 4 <> 0").withWatermark("ts", "7 minutes").alias("r")
    near = F.expr("l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 1 MINUTE")
    return _observed(left.join(right, near, "left").select("l.ts", "l.v", F.col("r.v").alias("other")), "joined")


def _chain(rows: DataFrame) -> DataFrame:
    """An aggregation of the rows of another one."""
    lower = _by_window(rows.withWatermark("ts", "5 minutes")).agg(F.max("v").alias("v"))
    return lower.groupBy(F.window(F.window_time("window"), "10 minutes")).agg(F.count("*"), F.sum("v").alias("v"))


def _by_list(rows: DataFrame) -> DataFrame:
    """Some rows have no time, and other columns than the time are read, so that the watermark stays in the plan."""
    timed = rows.selectExpr("if(v % 5 = 1, null, ts) AS ts", "k", "v").withWatermark("ts", "5 minutes")
    return timed.groupBy(F.window("ts", "5 minutes")).agg(F.expr("percentile(v, 0.5)"), F.max("k"))


def _run(rows: DataFrame, mode: str, folder: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """The rows that the sink has, and what Spark tells of each micro-batch."""
    spark, name = rows.sparkSession, f"counts_{mode}"
    spark.conf.set("spark.slash.mode", mode)
    writer = rows.writeStream.format("memory").queryName(name).option("checkpointLocation", str(folder / mode))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    told = [json.loads(one.json) for one in query.recentProgress]
    return sorted(map(str, spark.table(name).collect())), [_told(one) for one in told]


def _told(progress: dict[str, Any]) -> dict[str, Any]:
    operators = [
        (one["operatorName"], one["numRowsUpdated"] > 0, one["numRowsDroppedByWatermark"])
        for one in progress["stateOperators"]
    ]
    return {
        "batch": progress["batchId"],
        "rows": progress["numInputRows"],
        # The mean is of microseconds where native code counts, of milliseconds in Spark.
        "times": {name: time for name, time in progress["eventTime"].items() if name != "avg"},
        "observed": progress.get("observedMetrics"),
        "operators": operators,
        "written": progress["sink"]["numOutputRows"],
    }


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        (_groups, "json"),
        (_groups, "csv"),
        (_join, "text"),
        (_join, "json"),
        (_chain, "text"),
        (_by_list, "csv"),
    ],
)
def test_spark_learns_what_it_does_without_pyslash(
    spark: SparkSession, folder: Path, tmp_path: Path, query: Callable[[DataFrame], DataFrame], kind: str
) -> None:
    """Rows, watermark, event times, observed metrics, operators and written rows of each micro-batch are Spark's."""
    pyslash.enable(spark)
    try:
        plain, ours = (_run(query(_stream(spark, folder, kind)), mode, tmp_path) for mode in ("off", "require"))
    finally:
        spark.conf.unset("spark.slash.mode")
        pyslash.disable()
    assert ours == plain
    assert plain[0]
    assert all(one["written"] >= 0 for one in plain[1])
    assert any("max" in one["times"] for one in plain[1])


def test_a_static_table_that_is_joined_twice_is_read_once(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """Spark broadcasts it once for both joins: where the stream's part of the plan is a copy, too."""
    read = spark.sparkContext.accumulator(0)

    @F.udf("string")
    def name_of(number: int) -> str:
        read.add(1)
        return f"n{number}"

    names = spark.range(20).select(F.col("id").alias("v"), name_of("id").alias("name"))
    of_key, of_value = (names.selectExpr(f"v AS {key}", f"name AS {key}_name") for key in ("k", "v"))
    rows = _stream(spark, folder, "json").withWatermark("ts", "5 minutes")
    named = rows.join(F.broadcast(of_key), "k").join(F.broadcast(of_value), "v", "left")
    counts = named.groupBy(F.window("ts", "5 minutes"), "k_name", "v_name").count()
    pyslash.enable(spark)
    try:
        found, told = _run(counts, "require", tmp_path)
        assert read.value == 20 * len(told)
        assert found == _run(counts, "off", tmp_path)[0]
        assert read.value == 2 * 20 * len(told)
    finally:
        spark.conf.unset("spark.slash.mode")
        pyslash.disable()


class _Silent:
    """A cut whose tasks have told nothing."""

    def __init__(self, collects_times: bool) -> None:
        self.collects_times = collects_times

    def event_times(self) -> list[tuple[int, int, int, float]]:
        return [(0, 0, 0, 0.0)]


def test_a_watermark_that_would_stand_still_is_an_error() -> None:
    """Rows under a watermark, and no time. Without rows, or with rows from above a watermark, no time is missing."""
    with pytest.raises(WatermarkError, match="20 rows"):
        check_times(_Silent(True), 20)  # type: ignore[arg-type]
    check_times(_Silent(True), 0)  # type: ignore[arg-type]
    check_times(_Silent(False), 20)  # type: ignore[arg-type]


@pytest.mark.parametrize("above", ["nothing", "a static join"])
def test_no_rows_have_a_partition(spark: SparkSession, folder: Path, tmp_path: Path, above: str) -> None:
    """A function finds a partition in a micro-batch without rows, as with plain Spark and one state partition."""
    found: list[tuple[int, int]] = []
    rows = _by_window(_stream(spark, folder, "json").withWatermark("ts", "5 minutes")).count()
    if above == "a static join":
        rows = rows.join(spark.range(3).selectExpr("cast(id as int) k").hint("broadcast"), "k", "left")
    pyslash.enable(spark)
    try:
        writer = rows.writeStream.foreachBatch(
            lambda batch, _: found.append((batch.count(), batch.rdd.getNumPartitions()))
        )
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        query.awaitTermination()
        assert pyslash.progress(query)
    finally:
        pyslash.disable()
    assert found[0] == (0, 1)


def test_as_many_epochs_are_kept_of_two_operators(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    found = run(_chain(_stream(spark, folder, "json")), tmp_path, **{"progress.retained": "2"}).progress
    last = found[-1]["epoch"]
    assert [(one["epoch"], one["operator"]) for one in found] == [
        (epoch, operator) for epoch in (last - 1, last) for operator in (0, 1)
    ]
