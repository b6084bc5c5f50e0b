"""Moving a query between plain Spark and pyslash with its state: what is refused, and what it leaves as it was."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.cli import main
from pyslash.errors import CheckpointError, InvalidInputError, UnsupportedQueryError
from pyslash.migrate import export as exporting
from pyslash.spark.session import changed
from tests.support.attempt import BATCHES, Attempt, add, attempt, make_stream
from tests.support.processors import PROVIDER
from tests.support.stream import Stream


def tumbling(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.window("ts", "10 seconds"), "k").agg(F.count("*"), F.sum("v"), F.avg("v"))


def sliding(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.window("ts", "10 seconds", "5 seconds"), "k").agg(F.sum("v"))


def begun(spark: SparkSession, folder: Path) -> Stream:
    return make_stream(spark, folder, BATCHES[:2])


def rest(stream: Stream) -> None:
    for rows in BATCHES[2:]:
        add(stream, rows)


def rows_of(*attempts: Attempt) -> list[tuple[int, list[str]]]:
    return [batch for one in attempts for batch in one.batches]


STORES = "org.apache.spark.sql.execution.streaming.state."
# Its last batch moves the watermark, and by the same watermark rows are late and windows close in the next one.
ONE_WATERMARK = {
    "spark.sql.streaming.statefulOperator.allowMultiple": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


@pytest.mark.parametrize(
    "conf",
    [
        {PROVIDER: f"{STORES}HDFSBackedStateStoreProvider"},
        {PROVIDER: f"{STORES}RocksDBStateStoreProvider"},
        ONE_WATERMARK,
    ],
    ids=["HDFS", "RocksDB", "one watermark"],
)
def test_a_query_moves_in_and_out_again(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], conf: dict[str, str]
) -> None:
    with changed(spark, conf):
        moves_in_and_out(spark, tmp_path, capsys)


def moves_in_and_out(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream, moved = begun(spark, tmp_path), tmp_path / "moved"
    first = attempt(tumbling(stream.read()), moved, "off")
    add(stream, BATCHES[2])
    second = attempt(tumbling(stream.read()), moved, adopt="true")
    assert second.error is None
    assert second.ran_on_pyslash
    with pytest.raises(UnsupportedQueryError, match=r"is pyslash's.*pyslash state export"):
        attempt(tumbling(stream.read()), moved, "off")
    assert main(["state", "export", str(moved)]) == 0
    assert "plain Spark continues the query" in capsys.readouterr().out
    add(stream, BATCHES[3])
    third = attempt(tumbling(stream.read()), moved, "off")
    assert third.error is None
    assert rows_of(first, second, third) == rows_of(*never_moved(spark, tmp_path))
    assert sum(len(rows) for _, rows in rows_of(first, second, third)) >= 3


def never_moved(spark: SparkSession, tmp_path: Path) -> list[Attempt]:
    """The runs of a query of plain Spark with the same rows: it too runs a batch without data at the end of each."""
    folder = tmp_path / "expected"
    folder.mkdir()
    stream, runs = begun(spark, folder), []
    for added in ([], BATCHES[2:3], BATCHES[3:4]):
        for rows in added:
            add(stream, rows)
        runs.append(attempt(tumbling(stream.read()), tmp_path / "still", "off"))
    return runs


def timeless(stream: Stream) -> DataFrame:
    """Unique times and keys, where the rows of one key have no time."""
    files = stream.spark.readStream.schema(stream.read().schema).option("maxFilesPerTrigger", 1)
    rows = files.parquet(str(stream.folder / "in"))
    timed = rows.withColumn("ts", F.when(F.col("k") != "a", F.col("ts"))).withWatermark("ts", "10 seconds")
    return timed.dropDuplicates(["ts", "k"]).select("ts", "k")


def test_keys_without_a_time_move_too(spark: SparkSession, tmp_path: Path) -> None:
    batches = [[(1000 + number, key, number) for key in "ab"] for number in range(3)]
    runs: list[list[tuple[int, list[str]]]] = []
    for engine in ("require", "off"):
        folder = tmp_path / engine
        folder.mkdir()
        stream = make_stream(spark, folder, batches[:2])
        first = attempt(timeless(stream), folder / "checkpoint", "off")
        add(stream, batches[2])
        second = attempt(timeless(stream), folder / "checkpoint", engine, adopt="true")
        assert second.ran_on_pyslash is (engine == "require")
        runs.append(rows_of(first, second))
    assert runs[0] == runs[1]
    assert sum("ts=None" in row for _, rows in runs[0] for row in rows) == 1


MOST = (1 << 62) + 12345
OVERFLOWING = [[(1000, "a", MOST), (1001, "b", 5)], [(1002, "a", MOST), (1003, "b", 6)], [(1004, "a", -MOST)]]


def sums(stream: Stream, *functions: str) -> DataFrame:
    return stream.read().groupBy("k").agg(*(F.expr(f"{function}(v)") for function in functions))


def test_a_sum_that_is_null_beside_one_that_wraps_around_stays_so(spark: SparkSession, tmp_path: Path) -> None:
    runs = []
    for engine in ("require", "off"):
        folder = tmp_path / engine
        folder.mkdir()
        stream = make_stream(spark, folder, OVERFLOWING[:2])
        with changed(spark, {"spark.sql.ansi.enabled": "false"}):
            query = sums(stream, "sum", "try_sum")
            first = attempt(query, folder / "checkpoint", "off", output="update")
            add(stream, OVERFLOWING[2])
            second = attempt(query, folder / "checkpoint", engine, output="update", adopt="true")
        assert second.ran_on_pyslash is (engine == "require")
        runs.append(rows_of(first, second))
    assert runs[0] == runs[1]
    assert "try_sum(v)=None" in str(second.batches)


def test_a_sum_that_is_null_beside_a_mean_is_not_moved(spark: SparkSession, tmp_path: Path) -> None:
    stream, checkpoint = make_stream(spark, tmp_path, OVERFLOWING[:2]), tmp_path / "checkpoint"
    with changed(spark, {"spark.sql.ansi.enabled": "false"}):
        query = sums(stream, "try_sum", "avg")
        attempt(query, checkpoint, "off", output="update")
        add(stream, OVERFLOWING[2])
        refused = attempt(query, checkpoint, output="update", adopt="true")
        assert re.search("UnsupportedQueryError: .*the sum of v has left its type", str(refused.error))
        assert not list(checkpoint.glob("slash/manifests/*"))
        stays = attempt(query, checkpoint, "auto", output="update", adopt="true")
        assert stays.error is None
        assert not stays.ran_on_pyslash


def test_what_cannot_be_moved_stays_with_plain_spark(spark: SparkSession, tmp_path: Path) -> None:
    stream, checkpoint = begun(spark, tmp_path), tmp_path / "checkpoint"
    first = attempt(sliding(stream.read()), checkpoint, "off")
    rest(stream)
    with pytest.raises(UnsupportedQueryError, match="state of sliding windows cannot be moved"):
        attempt(sliding(stream.read()), checkpoint, adopt="true")
    assert not (checkpoint / "slash").exists()
    second = attempt(sliding(stream.read()), checkpoint, "auto", adopt="true")
    assert second.error is None
    assert not second.ran_on_pyslash
    assert len(rows_of(first, second)) > 2


def test_a_sliding_window_is_not_exported(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream, checkpoint = begun(spark, tmp_path), tmp_path / "checkpoint"
    attempt(sliding(stream.read()), checkpoint)
    assert main(["state", "export", str(checkpoint)]) == 2
    assert "state of sliding windows cannot be moved" in capsys.readouterr().err
    rest(stream)
    second = attempt(sliding(stream.read()), checkpoint)
    assert second.error is None
    assert second.ran_on_pyslash


def test_a_query_with_a_limit_stays_where_it_is(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = begun(spark, tmp_path)
    for engine in ("off", "require"):
        attempt(tumbling(stream.read()).limit(100), tmp_path / engine, engine)
    why = "plain Spark has the state of globalLimit and stateStoreSave"
    assert main(["state", "export", str(tmp_path / "require")]) == 2
    assert why in capsys.readouterr().err
    rest(stream)
    refused = attempt(tumbling(stream.read()).limit(100), tmp_path / "off", adopt="true")
    assert why in str(refused.error)


def unique(stream: Stream, *keys: str) -> DataFrame:
    """Pairs that come once, of `k`, `v` and a letter that `v` makes."""
    letter = F.when(F.col("v") % 2 == 0, "a").otherwise("b")
    return stream.read().withColumn("letter", letter).select(*sorted(keys)).dropDuplicates(keys)


PAIRS = [[(1000, "a", 1), (1001, "a", 2)], [(1010, "b", 1)], [(1020, "b", 2), (1021, "a", 1), (1022, "b", 1)]]


def test_keys_in_another_order_are_exported_as_the_last_start_has_them(spark: SparkSession, tmp_path: Path) -> None:
    stream, checkpoint = make_stream(spark, tmp_path, PAIRS[:1]), tmp_path / "ours"
    expected = [attempt(unique(stream, "k", "letter"), tmp_path / "plain", "off")]
    found = [attempt(unique(stream, "k", "letter"), checkpoint)]
    for rows, mode in zip(PAIRS[1:], ("require", "off"), strict=True):
        add(stream, rows)
        if mode == "off":
            exporting.export(spark, str(checkpoint))
        found.append(attempt(unique(stream, "letter", "k"), checkpoint, mode))
        expected.append(attempt(unique(stream, "k", "letter"), tmp_path / "plain", "off"))
        assert found[-1].error is None
    assert rows_of(*found) == rows_of(*expected)
    assert [len(rows) for _, rows in found[-1].batches if rows] == [1]


def test_keys_whose_types_have_changed_places_are_exported_once_they_stand_as_at_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark holds the query against the types that it has noted when the query first started."""
    stream, checkpoint = make_stream(spark, tmp_path, PAIRS[:1]), tmp_path / "ours"
    attempt(unique(stream, "k", "v"), checkpoint)
    add(stream, PAIRS[1])
    attempt(unique(stream, "v", "k"), checkpoint)
    with pytest.raises(InvalidInputError, match=r"names its keys as \(v, k\).*Start it once with \(k, v\)"):
        exporting.export(spark, str(checkpoint))
    add(stream, PAIRS[2])
    assert attempt(unique(stream, "k", "v"), checkpoint).error is None
    exporting.export(spark, str(checkpoint))
    add(stream, [(1030, "c", 1), (1031, "b", 2), (1032, "a", 1)])
    last = attempt(unique(stream, "k", "v"), checkpoint, "off")
    assert [len(rows) for _, rows in last.batches if rows] == [1]


def test_a_query_that_starts_while_it_is_exported_stays(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, checkpoint = begun(spark, tmp_path), tmp_path / "checkpoint"
    first = attempt(tumbling(stream.read()), checkpoint)
    written = exporting._written

    def slowly(*call: object) -> int:
        groups = written(*call)
        add(stream, BATCHES[2])
        meanwhile.append(attempt(tumbling(stream.read()), checkpoint))
        return groups

    meanwhile: list[Attempt] = []
    monkeypatch.setattr(exporting, "_written", slowly)
    with pytest.raises(CheckpointError, match="the query has run since"):
        exporting.export(spark, str(checkpoint))
    monkeypatch.undo()
    exporting.export(spark, str(checkpoint))
    add(stream, BATCHES[3])
    last = attempt(tumbling(stream.read()), checkpoint, "off")
    assert rows_of(first, *meanwhile, last) == rows_of(*never_moved(spark, tmp_path))


@pytest.mark.parametrize("is_empty", [False, True])
def test_without_sparks_own_folder_nothing_is_exported(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_empty: bool
) -> None:
    stream, checkpoint = begun(spark, tmp_path), tmp_path / "checkpoint"
    attempt(tumbling(stream.read()), checkpoint)
    shutil.rmtree(checkpoint / "state")
    if is_empty:
        (checkpoint / "state").mkdir()
    assert main(["state", "export", str(checkpoint)]) == 2
    assert "Spark does not read its own state" in capsys.readouterr().err
    assert (checkpoint / "slash").exists()


def test_windows_of_times_without_a_zone_move(spark: SparkSession, tmp_path: Path) -> None:
    def query(stream: Stream) -> DataFrame:
        window = F.window(F.expr("CAST(ts AS timestamp_ntz)"), "10 seconds")
        return stream.read().groupBy(window, "k").agg(F.count("*"), F.sum("v"))

    runs = []
    for engine in ("require", "off"):
        folder = tmp_path / engine
        folder.mkdir()
        stream = begun(spark, folder)
        first = attempt(query(stream), folder / "checkpoint", "off", output="update")
        rest(stream)
        second = attempt(query(stream), folder / "checkpoint", engine, output="update", adopt="true")
        assert second.error is None
        runs.append(rows_of(first, second))
    assert runs[0] == runs[1]


def test_a_total_of_no_rows_stays_null(spark: SparkSession, tmp_path: Path) -> None:
    batches = [[(1000, "a", 1)], [(1001, "a", 2)], [(1002, "a", 3)]]
    runs = []
    for engine in ("require", "off"):
        folder = tmp_path / engine
        folder.mkdir()
        stream = make_stream(spark, folder, batches[:2])
        value = F.coalesce("v", F.lit(0))
        query = stream.read().where("k = 'x'").agg(F.sum(value), F.max(value))
        first = attempt(query, folder / "checkpoint", "off", output="complete")
        add(stream, batches[2])
        second = attempt(query, folder / "checkpoint", engine, output="complete", adopt="true")
        assert second.error is None
        runs.append(rows_of(first, second))
    assert runs[0] == runs[1]


def test_a_query_whose_aggregates_have_changed_is_not_exported(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream, checkpoint = begun(spark, tmp_path), tmp_path / "checkpoint"
    attempt(tumbling(stream.read()), checkpoint)
    rest(stream)
    changed_query = stream.read().groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v"))
    assert attempt(changed_query, checkpoint).error is None
    assert main(["state", "export", str(checkpoint)]) == 2
    assert "aggregates of the query's first start" in capsys.readouterr().err
