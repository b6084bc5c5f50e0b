"""What a job reads where its stream stands for files with the history of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamReader

from pyslash.api.history_of import reading
from pyslash.errors import InvalidInputError

SCHEMA = "value long, timestamp timestamp"
Read = Callable[[DataStreamReader, Path], DataFrame]


def of_another_folder(stream: DataStreamReader, folder: Path) -> DataFrame:
    return stream.schema(SCHEMA).parquet(path=str(folder / "live"))


def of_a_source_without_files(stream: DataStreamReader, folder: Path) -> DataFrame:
    return stream.format("rate").option("rowsPerSecond", 1).load()


def of_text(stream: DataStreamReader, folder: Path) -> DataFrame:
    """In another format than the history."""
    return stream.schema(SCHEMA).option("header", True).csv(str(folder / "live"))


def of_a_load(stream: DataStreamReader, folder: Path) -> DataFrame:
    return stream.schema(SCHEMA).load(str(folder / "live"), format="parquet")


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a live stream of one row, and a history of three."""
    made = tmp_path_factory.mktemp("history")
    for name, rows in (("live", 1), ("history", 3)):
        spark.range(rows).selectExpr("id AS value", "timestamp_seconds(id) AS timestamp").write.parquet(
            str(made / name)
        )
    return made


@pytest.mark.parametrize(
    ("read", "format"),
    [(of_another_folder, None), (of_a_source_without_files, None), (of_text, "parquet"), (of_a_load, None)],
)
def test_the_history_has_the_columns_of_the_stream(
    spark: SparkSession, folder: Path, tmp_path: Path, read: Read, format: str | None
) -> None:
    columns = set(read(spark.readStream, folder).columns)
    with reading(str(folder / "history"), format):
        rows = read(spark.readStream, folder)
    assert set(rows.columns) == columns == {"value", "timestamp"}
    found: list[int] = []
    writer = rows.writeStream.foreachBatch(lambda batch, epoch: found.extend(row.value for row in batch.collect()))
    writer.option("checkpointLocation", str(tmp_path)).trigger(once=True).start().awaitTermination()
    assert sorted(found) == [0, 1, 2]


def test_options_of_the_streams_own_files_hold(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame([(7,)], "value long").write.option("header", True).csv(str(tmp_path / "history"))
    with reading(str(tmp_path / "history"), None):
        rows = spark.readStream.schema("value long").csv(str(tmp_path), header=True)
    found: list[int] = []
    writer = rows.writeStream.foreachBatch(lambda batch, epoch: found.extend(row.value for row in batch.collect()))
    writer.option("checkpointLocation", str(tmp_path / "run")).trigger(once=True).start().awaitTermination()
    assert found == [7]


@pytest.mark.parametrize("file_format", [None, "csv"])
@pytest.mark.parametrize("by_option", [False, True])
@pytest.mark.parametrize("own", ["csv", "CSV"])
def test_options_hold_however_the_files_are_named(
    spark: SparkSession, tmp_path: Path, file_format: str | None, by_option: bool, own: str
) -> None:
    spark.createDataFrame([(7,)], "value long").write.option("header", True).csv(str(tmp_path / "history"))
    live = tmp_path / "live"
    live.mkdir()
    with reading(str(tmp_path / "history"), file_format):
        stream = spark.readStream.schema("value long").format(own).options(header=True)
        rows = stream.option("path", str(live)).load() if by_option else stream.load(str(live))
    found: list[int] = []
    writer = rows.writeStream.foreachBatch(lambda batch, epoch: found.extend(row.value for row in batch.collect()))
    writer.option("checkpointLocation", str(tmp_path / "run")).trigger(once=True).start().awaitTermination()
    assert found == [7]


def test_a_format_that_is_named_holds_against_sparks_default(spark: SparkSession, folder: Path) -> None:
    spark.conf.set("spark.sql.sources.default", "orc")
    try:
        with reading(str(folder / "history"), "parquet"):
            rows = spark.readStream.schema(SCHEMA).load(str(folder / "live"))
        assert "parquet" in rows._jdf.queryExecution().logical().toString().lower()
    finally:
        spark.conf.unset("spark.sql.sources.default")


def test_a_second_stream_is_an_error_and_behind_it_all_is_as_before(spark: SparkSession, folder: Path) -> None:
    before = {name: getattr(DataStreamReader, name) for name in ("parquet", "load", "table", "csv")}
    with reading(str(folder / "history"), None):
        of_another_folder(spark.readStream, folder)
        with pytest.raises(InvalidInputError, match=r"one stream \(parquet .*live, load of a source without a path"):
            of_a_source_without_files(spark.readStream, folder)
    assert {name: getattr(DataStreamReader, name) for name in before} == before
