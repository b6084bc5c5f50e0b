"""State as a table of Spark, held against what the same query emits in complete and update mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, datasource
from pyspark.sql import functions as F

import pyslash
from pyslash.errors import SlashError
from pyslash.inspect.state import dump
from pyslash.inspect.state.source import FilteredReader, FilteredStateSource, StateReader, StateSource
from pyslash.spark.session import changed
from pyslash.state.manifest import BLOCKS
from pyslash.state.savepoint import save
from pyslash.state.stored import StoredState
from tests.support.attempt import BATCHES, attempt, make_stream, settings
from tests.support.stream import Stream, seconds

AGGREGATES = ["sum(v) AS total", "avg(v) AS mean", "max(ts) AS last", "stddev(v) AS spread", "count(*) AS n"]
NAMES = ["total", "mean", "last", "spread", "n"]


@pytest.fixture(scope="module")
def stream(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stream:
    pyslash.register_state(spark)
    return make_stream(spark, tmp_path_factory.mktemp("source"), BATCHES)


def state(spark: SparkSession, checkpoint: Path, **options: object) -> DataFrame:
    reader = spark.read.format("slash-state")
    return reader.options(**{name: str(value) for name, value in options.items()}).load(str(checkpoint))


def in_words(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


def test_groups_are_what_the_query_emits_in_complete_mode_as_of_each_epoch(stream: Stream, tmp_path: Path) -> None:
    made = [F.expr(one) for one in AGGREGATES]
    emitted = attempt(stream.read().groupBy("k").agg(*made), tmp_path, output="complete")
    assert emitted.ran_on_pyslash
    assert len(emitted.batches) == len(BATCHES)
    for epoch, expected in emitted.batches:
        found = state(stream.spark, tmp_path, epoch=epoch).toDF("k", *NAMES)
        assert in_words(found) == expected
    assert state(stream.spark, tmp_path).columns[:3] == ["k", "sum(v)", "avg(v)"]


def test_a_query_is_read_while_it_runs(stream: Stream, tmp_path: Path) -> None:
    """By the sink's function, in the middle of a micro-batch: the state as of then is what the function is given."""
    found: list[tuple[list[str], list[str], list[str]]] = []

    def take(rows: DataFrame, epoch: int) -> None:
        held = state(stream.spark, tmp_path).toDF("k", "total")
        assert StoredState.at(str(tmp_path)).epochs()[-1] == epoch
        named = stream.spark.read.format("slash-state").option("query", "totals").load()
        found.append((in_words(held), in_words(named.toDF("k", "total")), in_words(rows)))

    with settings(stream.spark, {"spark.slash.mode": "require"}):
        totals = stream.read().groupBy("k").agg(F.sum("v").alias("total"))
        writer = totals.writeStream.option("checkpointLocation", str(tmp_path)).outputMode("complete")
        query = writer.trigger(availableNow=True).queryName("totals").foreachBatch(take).start()
        query.awaitTermination()
    assert len(found) == len(BATCHES)
    assert all(held == named == given for held, named, given in found)
    by_id = stream.spark.read.format("slash-state").option("query", str(query.id)).load()
    assert in_words(by_id.toDF("k", "total")) == found[-1][0]


def test_windows_are_what_the_query_emits_in_complete_mode_whatever_the_partitions(
    stream: Stream, tmp_path: Path
) -> None:
    window = F.window("ts", "20 seconds", "10 seconds")
    emitted = attempt(stream.read().groupBy(window, "k").agg(F.sum("v").alias("total")), tmp_path, output="complete")
    _, expected = emitted.batches[-1]
    assert len(expected) > 10
    for partitions in (1, 5):
        found = state(stream.spark, tmp_path, partitions=partitions)
        assert found.columns == ["window_start", "window_end", "k", "sum(v)"]
        assert found.rdd.getNumPartitions() == partitions
        window = F.struct(F.col("window_start").alias("start"), F.col("window_end").alias("end")).alias("window")
        assert in_words(found.select(window, "k", F.col("`sum(v)`").alias("total"))) == expected


def test_open_windows_have_their_last_rows_of_update_mode_as_of_a_savepoint(stream: Stream, tmp_path: Path) -> None:
    query = stream.read().groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v").alias("total"), F.count("*"))
    emitted = attempt(query.select("window.start", "window.end", "k", "total", "count(1)"), tmp_path, output="update")
    assert emitted.ran_on_pyslash
    save(str(tmp_path), "now")
    found = state(stream.spark, tmp_path, savepoint="now").toDF("start", "end", "k", "total", "count(1)")
    last = {row.split(", k=")[0] + row.split(", ")[-3]: row for _, batch in emitted.batches for row in batch}
    rows = in_words(found)
    assert rows
    assert set(rows) <= set(last.values())
    newest = max(row for _, batch in emitted.batches for row in batch)
    assert newest in rows


def test_groups_by_the_event_time_have_no_other_window(stream: Stream, tmp_path: Path) -> None:
    query = stream.read().where("ts IS NOT NULL").groupBy("ts", "k").agg(F.sum("v").alias("total"))
    emitted = attempt(query, tmp_path, output="update")
    assert emitted.ran_on_pyslash
    found = state(stream.spark, tmp_path)
    assert found.columns == ["ts", "k", "sum(v)"]
    _, last = emitted.batches[-1]
    assert {*last} <= {*in_words(found.toDF("ts", "k", "total"))}


def test_sessions_that_are_open_are_those_of_all_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Plain Spark's batch engine is the oracle; the first session has rows of two micro-batches."""
    pyslash.register_state(spark)
    made = make_stream(spark, tmp_path, [[(1005, "b", 1), (1010, "b", 2)], [(1018, "b", 4), (1040, "b", 8)]])
    session = F.session_window("ts", "15 seconds")
    emitted = attempt(made.read().groupBy(session, "k").agg(F.sum("v").alias("s")), tmp_path / "checkpoint")
    assert emitted.ran_on_pyslash
    assert not any(rows for _, rows in emitted.batches)
    expected = spark.read.parquet(str(tmp_path / "in")).groupBy(session, "k").agg(F.sum("v").alias("s"))
    window = F.struct(F.col("window_start").alias("start"), F.col("window_end").alias("end")).alias("session_window")
    found = state(spark, tmp_path / "checkpoint").select(window, "k", F.col("`sum(v)`").alias("s"))
    assert in_words(found) == in_words(expected)
    assert found.count() == 2


def test_keys_of_a_deduplication(stream: Stream, tmp_path: Path) -> None:
    emitted = attempt(stream.read().dropDuplicates(["k"]).select("k"), tmp_path)
    assert emitted.ran_on_pyslash
    assert in_words(state(stream.spark, tmp_path)) == sorted(row for _, batch in emitted.batches for row in batch)


UNIQUE: dict[str, Callable[[DataFrame], DataFrame]] = {
    "groupBy of the event time": lambda rows: rows.groupBy("ts", "k").count(),
    "dropDuplicates": lambda rows: rows.dropDuplicates(["ts", "k"]),
    "dropDuplicatesWithinWatermark": lambda rows: rows.dropDuplicatesWithinWatermark(["k"]),
}


@pytest.mark.parametrize("name", UNIQUE)
def test_what_the_watermark_has_ended_is_gone_as_in_sparks_store(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """Though files keep it as long as something in its pane is open."""
    pyslash.register_state(spark)
    first = [(1005, "a", 1), (1006, "b", 2), (1009, "a", 4), (1012, "e", 8), (1018, "f", 16)]
    made = make_stream(spark, tmp_path, [first, [(1026, "c", 32)], [(1027, "d", 64)]])
    attempt(UNIQUE[name](made.read()), tmp_path / "spark", "off")
    attempt(UNIQUE[name](made.read()), tmp_path / "ours")
    sizes = set()
    for epoch in StoredState.at(str(tmp_path / "ours")).epochs():
        store = spark.read.format("statestore").option("batchId", epoch).load(str(tmp_path / "spark")).select("key.*")
        found = state(spark, tmp_path / "ours", epoch=epoch)
        assert in_words(found.select(*store.columns)) == in_words(store)
        sizes.add(found.count())
    assert len(sizes) > 1


def test_columns_of_one_name_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    """The bounds of windows have names that keys may have, too; a query without windows has no such bounds."""
    pyslash.register_state(spark)
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("window_start", pa.string()), ("count(*)", pa.int64())])
    made = Stream(spark, tmp_path, schema, 10)
    made.add(pa.table([[seconds(1), seconds(2), seconds(3)], ["a", "b", "b"], [5, 5, 6]], schema=schema))
    keys = made.read().groupBy("window_start", "count(*)").count()
    (_, emitted), *_ = attempt(keys, tmp_path / "keys", output="complete").batches
    found = state(spark, tmp_path / "keys")
    assert found.columns == ["window_start", "`count(*)`", "count(*)"]
    assert in_words(found.toDF("window_start", "count(*)", "count")) == emitted
    window = F.window("ts", "10 seconds")
    attempt(made.read().groupBy(window, "window_start").count(), tmp_path / "windows", output="complete")
    found = state(spark, tmp_path / "windows")
    assert found.columns == ["window_start", "window_end", "window_start_2", "count(*)"]
    rows = sorted(found.drop("window_start", "window_end").collect())
    assert rows == [("a", 1), ("b", 2)]
    dumped = pa.Table.from_batches(dump.rows(StoredState.at(str(tmp_path / "windows")), None, None, ["b"]))
    assert dumped.column("window_start_2").to_pylist() == ["b"]
    source = FilteredStateSource({"path": str(tmp_path / "windows")})
    reader = source.reader(source.schema())
    if hasattr(datasource, "EqualTo"):
        assert list(reader.pushFilters([datasource.EqualTo(("window_start_2",), "b")])) == []
        (batch,) = [batch for part in reader.partitions() for batch in reader.read(part)]
        assert batch.column("count(*)").to_pylist() == [2]


@pytest.mark.skipif(not hasattr(datasource, "EqualTo"), reason="Spark 4.0 pushes no filters to Python data sources")
def test_filters_of_keys_reach_the_tasks(stream: Stream, tmp_path: Path) -> None:
    attempt(stream.read().groupBy("k").agg(F.sum("v").alias("total")), tmp_path, output="complete")
    source = FilteredStateSource({"path": str(tmp_path)})
    reader = source.reader(source.schema())
    assert isinstance(reader, FilteredReader)
    filters = [datasource.EqualTo(("k",), "a"), datasource.IsNotNull(("k",)), datasource.EqualTo(("sum(v)",), 1)]
    assert list(reader.pushFilters(filters)) == filters[1:]
    (batch,) = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert batch.column("k").to_pylist() == ["a"]
    with changed(stream.spark, {"spark.sql.python.filterPushdown.enabled": "true"}):
        pyslash.register_state(stream.spark)
        found = state(stream.spark, tmp_path).where("k = 'a' AND `sum(v)` > 0")
        assert [row.k for row in found.collect()] == ["a"]
    pyslash.register_state(stream.spark)
    assert state(stream.spark, tmp_path).where("k = 'a'").count() == 1


def test_what_cannot_be_read_is_said(stream: Stream, tmp_path: Path) -> None:
    query = stream.read().groupBy("k").agg(F.sum("v"))
    attempt(query, tmp_path, output="complete")
    for options, told in [
        ({"query": "totals"}, "write load\\(checkpointLocation\\), or option"),
        ({"epochs": "1"}, "has no option epochs; it has query, epoch, savepoint, operator, joinSide, partitions"),
        ({"epoch": "x"}, "the option epoch of slash-state is 'x': write a number"),
        ({"epoch": "99"}, "has no manifest of epoch 99, only from 0 to "),
        ({"savepoint": "../up"}, "is no name of a savepoint"),
        ({"operator": "1"}, "holds no state of pyslash"),
    ]:
        with pytest.raises(SlashError, match=told):
            StateSource({"path": str(tmp_path), **options}).schema()
    with pytest.raises(PySparkException, match=r"holds no state of pyslash"):
        state(stream.spark, tmp_path / "nothing").collect()
    with pytest.raises(PySparkException, match=r"this application has started no query 'nobody' on pyslash, but "):
        stream.spark.read.format("slash-state").option("query", "nobody").load()


def test_a_damaged_file_is_an_error_and_no_row(stream: Stream, tmp_path: Path) -> None:
    attempt(stream.read().groupBy("k").agg(F.sum("v")), tmp_path, output="complete")
    source = StateSource({"path": str(tmp_path)})
    reader = source.reader(source.schema())
    assert isinstance(reader, StateReader)
    (part,) = reader.partitions()
    assert list(reader.read(part))
    manifest = StoredState.at(str(tmp_path)).manifest()
    for file in manifest.files:
        path = tmp_path / BLOCKS / file.name
        good = path.read_bytes()
        head = len(good) // 3
        path.write_bytes(good[:head] + bytes(byte ^ 1 for byte in good[head : 2 * head]) + good[2 * head :])
        with pytest.raises(SlashError):
            list(reader.read(part))
        path.write_bytes(good)


def test_structs_are_structs(stream: Stream, tmp_path: Path) -> None:
    """Of native code they are bytes."""
    key = F.struct("k", F.lit(None).cast("decimal(20,2)").alias("d")).alias("s")
    newest = F.max_by(F.struct("v", "k", "ts"), "ts").alias("newest")
    lists = F.max_by(F.when(F.col("v") > 100, F.array("v", F.lit(None))), "ts").alias("lists")
    emitted = attempt(stream.read().groupBy(key).agg(newest, lists), tmp_path, output="complete")
    assert emitted.ran_on_pyslash
    found = state(stream.spark, tmp_path).toDF("s", "newest", "lists")
    assert [field.dataType.typeName() for field in found.schema] == ["struct", "struct", "array"]
    names = {"s": "k: string, d: decimal(20,2)", "newest": "v: bigint, k: string, ts: timestamp"}
    named = [f"CAST({one} AS struct<{fields}>) AS {one}" for one, fields in names.items()]
    assert in_words(found.selectExpr(*named, "lists")) == emitted.batches[-1][1]
