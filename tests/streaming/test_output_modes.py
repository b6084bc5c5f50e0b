"""Update and complete mode, and groups without a window, against plain Spark over the same micro-batches."""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.driver.start import hook
from pyslash.emit.column_merge import ColumnMerge
from pyslash.plan.output_mode import OutputMode
from tests.support.attempt import settings
from tests.support.ran import Query, ran
from tests.support.stream import Stream, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
GROUPS = 1_000


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """Many groups at first, of which later micro-batches touch a few."""
    made = Stream(spark, tmp_path, SCHEMA, delay_seconds=30)
    add(made, range(GROUPS), at=1000)
    for batch in range(1, 5):
        add(made, range(100 * batch, 100 * batch + 10), at=1000 + 20 * batch)
    return made


def add(stream: Stream, keys: range, at: float) -> None:
    times: list[datetime] = [seconds(at - (i % 7)) for i in range(len(keys))]
    stream.add(pa.table({"ts": times, "k": list(keys), "v": [k * 3 - 7 for k in keys]}, SCHEMA))


CALLS = {"n": "count(*)", "s": "sum(v)", "m": "max(v)", "a": "avg(v)"}


def grouped(rows: GroupedData) -> DataFrame:
    return rows.agg(*(F.expr(call).alias(name) for name, call in CALLS.items()))


QUERIES: dict[str, Query] = {
    "tumbling": lambda rows: grouped(rows.groupBy(F.window("ts", "20 seconds"), "k")),
    "sliding": lambda rows: grouped(rows.groupBy(F.window("ts", "20 seconds", "10 seconds"), "k")),
    "keys": lambda rows: grouped(rows.groupBy("k")),
    "global": lambda rows: grouped(rows.groupBy()),
    "rollup": lambda rows: grouped(rows.withColumn("r", F.col("k") % 3).rollup("r", "k")),
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("output", ["update", "complete"])
def test_micro_batches_are_sparks_with_groups_kept_in_executors(stream: Stream, query: Query, output: str) -> None:
    expected = ran(stream.read(), stream.folder, query, output, "off")
    found = ran(stream.read(), stream.folder, query, output, "require", **{"merge.driverBytes": "0"})
    assert found.batches == expected.batches
    assert {epoch["merged_by"] for epoch in found.progress if epoch["windows"]} == {"2 homes"}


def test_only_what_has_changed_is_read(stream: Stream) -> None:
    found = ran(stream.read(), stream.folder, QUERIES["keys"], "update", "require", **{"merge.driverBytes": "0"})
    first, *later = [epoch["bytes_read"]["shm"] for epoch in found.progress if epoch["windows"]]
    assert first > GROUPS * 24
    assert max(later) < first / 25  # first: each task reads half of the groups


@pytest.mark.parametrize("output", ["update", "complete"])
def test_executors_let_go_of_groups_that_outgrow_their_memory(
    spark: SparkSession, tmp_path: Path, output: str, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=30)
    for at, keys in enumerate((range(100), range(50, 150), range(30_000), range(20, 30))):
        add(stream, keys, at=1000 + at)
    conf = {"merge.driverBytes": "0", "home.size": "64k"}
    expected = ran(stream.read(), stream.folder, QUERIES["keys"], output, "off")
    with caplog.at_level(logging.WARNING, "pyslash"):
        found = ran(stream.read(), stream.folder, QUERIES["keys"], output, "require", **conf)
    assert found.batches == expected.batches
    merged_by = [epoch["merged_by"] for epoch in found.progress if epoch["windows"]]
    assert merged_by == ["2 homes", "2 homes", "2 tasks", "2 tasks"]
    assert caplog.text.count("raise spark.slash.home.size to keep them") == 1


def test_executors_keep_groups_that_are_changed_in_each_epoch(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=30)
    for at in range(8):
        add(stream, range(100), at=1000 + at)
    conf = {"merge.driverBytes": "0", "home.size": "64k"}  # room for the groups, not for each once an epoch
    found = ran(stream.read(), stream.folder, QUERIES["keys"], "update", "require", **conf)
    assert [epoch["merged_by"] for epoch in found.progress if epoch["windows"]] == ["2 homes"] * 8


def test_executors_let_go_of_groups_each_time_that_they_outgrow_their_memory(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=30)
    for at, keys in ((1000, 100), (1001, 30_000), (1200, 10), (1201, 10), (1202, 10), (1203, 30_000)):
        add(stream, range(keys), at=at)
    forgotten: list[ColumnMerge] = []
    monkeypatch.setattr(ColumnMerge, "forget", lambda self: forgotten.append(self))
    conf = {"merge.driverBytes": "0", "home.size": "64k"}
    found = ran(stream.read(), stream.folder, QUERIES["tumbling"], "update", "require", **conf)
    merged_by = [epoch["merged_by"] for epoch in found.progress if epoch["windows"]]
    assert merged_by[:2] == ["2 homes", "2 tasks"]
    assert merged_by[-2:] == ["2 homes", "2 tasks"]
    assert forgotten.count(forgotten[-1]) == 2  # others are of queries that ended before, and are swept meanwhile


@pytest.mark.parametrize(
    "conf",
    [
        {"merge.driverBytes": "1g"},
        {"transport": "tcp", "merge.driverBytes": "0", "home.size": "1"},
    ],
    ids=str,
)
@pytest.mark.parametrize("output", ["update", "complete"])
def test_micro_batches_are_sparks_where_blocks_are_merged(stream: Stream, output: str, conf: dict[str, str]) -> None:
    query = QUERIES["sliding"]
    expected = ran(stream.read(), stream.folder, query, output, "off")
    found = ran(stream.read(), stream.folder, query, output, "require", **conf)
    assert any(expected.batches)
    assert found.batches == expected.batches
    assert not {epoch["merged_by"] for epoch in found.progress} & {"2 homes"}


@pytest.mark.parametrize("durability", [pytest.param("off", marks=pytest.mark.nightly), "checkpoint"])
def test_a_query_that_starts_again_goes_on_with_its_groups(stream: Stream, durability: str) -> None:
    conf = {"merge.driverBytes": "0", "durability": durability}
    for _ in range(2):
        expected = ran(stream.read(), stream.folder, QUERIES["keys"], "update", "off")
        found = ran(stream.read(), stream.folder, QUERIES["keys"], "update", "require", **conf)
        assert found.batches == expected.batches
        assert found.batches[0]
        hook._sweep()
        add(stream, range(50, 20_050, 10), at=1200)


def test_what_is_read_again_after_a_restart_is_all_there_is(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=600)
    for at in (1000, 1200):
        add(stream, range(50), at=at)
    for _ in range(2):
        expected = ran(stream.read(), stream.folder, QUERIES["tumbling"], "update", "off")
        found = ran(
            stream.read(), stream.folder, QUERIES["tumbling"], "update", "require", **{"merge.driverBytes": "0"}
        )
        assert any(expected.batches)
        assert found.batches == expected.batches
        hook._sweep()
        # First windows of the second block alone, then those of the first one again.
        for at in (1200, 1000):
            add(stream, range(40, 60), at=at)


@pytest.mark.parametrize("partitions", ["1", "2"])
def test_a_global_aggregate_has_a_row_before_any_input(spark: SparkSession, tmp_path: Path, partitions: str) -> None:
    """Of one partition, such as a deduplication may leave, Spark makes a row without an exchange."""
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=30)
    add(stream, range(0), at=1000)
    add(stream, range(5), at=1000)

    def above(rows: DataFrame) -> DataFrame:
        return QUERIES["global"](rows.where("v > -5")).select(F.col("n") + 1, "s", "a")

    def of_distinct(rows: DataFrame) -> DataFrame:
        return above(rows.dropDuplicates(["k"]))

    with settings(spark, {"spark.sql.shuffle.partitions": partitions}):
        for query, output in ((above, "update"), (above, "complete"), (of_distinct, "update")):
            folder = tmp_path / query.__name__ / output
            expected = ran(stream.read(), folder, query, output, "off")
            assert len(expected.batches[0]) == 1
            assert ran(stream.read(), folder, query, output, "require").batches == expected.batches


@pytest.mark.parametrize("united", [False, True])
def test_names_of_sparks_own_making_are_no_change_of_the_query(stream: Stream, united: bool) -> None:
    def counted(rows: DataFrame) -> DataFrame:
        both = rows.union(rows) if united else rows
        return both.groupBy().agg(F.expr("count_if(v > 5)"), F.expr("count_if(k > 7)"))

    for _ in range(3):
        expected = ran(stream.read(), stream.folder, counted, "update", "off")
        assert any(expected.batches)
        assert ran(stream.read(), stream.folder, counted, "update", "require").batches == expected.batches
        add(stream, range(30), at=1200)


def test_names_of_what_a_key_reads_twice_are_no_change_of_the_query(stream: Stream) -> None:
    def windows(rows: DataFrame) -> DataFrame:
        name = F.expr("nullif(trim(concat(' ', k % 3, ' ')), '1')")
        return grouped(rows.withColumn("name", name).groupBy(F.window("ts", "20 seconds"), "name"))

    for _ in range(2):
        expected = ran(stream.read(), stream.folder, windows, "append", "off")
        assert any(expected.batches)
        assert ran(stream.read(), stream.folder, windows, "append", "require").batches == expected.batches
        add(stream, range(30), at=1200)
    name = "trim(concat(' ', CAST((k % 3L) AS STRING), ' '))"
    assert f"(IF(({name} = '1'), CAST(NULL AS STRING), {name})): string" in str(pyslash.explain(windows(stream.read())))


def test_a_whole_result_is_ordered_and_cut_by_spark(stream: Stream) -> None:
    def top(rows: DataFrame) -> DataFrame:
        return QUERIES["keys"](rows).orderBy(F.desc("s"), "k").limit(7)

    expected = ran(stream.read(), stream.folder, top, "complete", "off")
    assert any(expected.batches)
    assert ran(stream.read(), stream.folder, top, "complete", "require").batches == expected.batches


def test_windows_without_a_watermark_stay(stream: Stream) -> None:
    rows = stream.read().drop("ts").withColumn("ts", F.timestamp_seconds(F.col("k") % 50))
    expected = ran(rows, stream.folder, QUERIES["tumbling"], "update", "off")
    assert any(expected.batches)
    assert ran(rows, stream.folder, QUERIES["tumbling"], "update", "require").batches == expected.batches


def test_the_output_mode_may_change_with_a_restart(stream: Stream) -> None:
    for output in ("append", "update", "complete", "update", "append"):
        expected = ran(stream.read(), stream.folder, QUERIES["tumbling"], output, "off")
        found = ran(stream.read(), stream.folder, QUERIES["tumbling"], output, "require")
        assert any(expected.batches), output
        assert found.batches == expected.batches, output
        add(stream, range(30), at=1200 + 40 * len(stream.batches))


def test_spark_refuses_a_mode_that_a_sink_has_not(stream: Stream) -> None:
    frame = QUERIES["keys"](stream.read())
    pyslash.enable(stream.spark)
    try:
        with pytest.raises(AnalysisException, match=r"does not support Update output mode|STREAMING_OUTPUT_MODE"):
            frame.writeStream.outputMode("update").format("parquet").start(str(stream.folder / "out"))
    finally:
        pyslash.disable()


def test_explain_tells_the_mode(stream: Stream) -> None:
    text = pyslash.explain(QUERIES["keys"](stream.read()), OutputMode.COMPLETE)
    assert "covered, in complete mode" in text
    assert "no window" in text
