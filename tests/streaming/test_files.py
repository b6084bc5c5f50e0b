"""Parquet read natively: where Spark's own rows come out of it, and where the reading is left to Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.spark.session import changed
from tests.support.files import WINDOW, Query, counts, ran, same_as_spark, stream, table, watermarked, write
from tests.support.ran import ran as by_mode
from tests.support.stream import in_order, run

QUERIES: dict[str, tuple[Query, str]] = {
    "as it is": (lambda rows: counts(watermarked(rows)), "files"),
    "renamed": (
        lambda rows: counts(
            watermarked(rows.select("ts", F.col("k").alias("was"), "v", "s")).withColumnRenamed("was", "k")
        ),
        "files",
    ),
    "filtered below the watermark": (
        lambda rows: counts(
            watermarked(rows.where("s <> 'name 4' and (v < 300 or b) and not (k = 3) and v is not null"))
        ),
        "files",
    ),
    "filtered above the watermark": (
        lambda rows: counts(watermarked(rows).where("ts > timestamp '1970-01-01 00:16:45' and k in (1, 2, 5)")),
        "files",
    ),
    "filtered by what a filter makes null": (
        lambda rows: counts(watermarked(rows.where("not (v > 100 and b)"))),
        "files",
    ),
    "filtered by what is in no list": (lambda rows: counts(watermarked(rows.where("v not in (3, 6, 7, 8)"))), "files"),
    "filtered by a list of strings or nothing": (
        lambda rows: counts(watermarked(rows.where("s in ('name 1', 'name 2', 'name 4') or not (v in (1, 2) and b)"))),
        "files",
    ),
    "filtered by a date": (lambda rows: counts(watermarked(rows.where("d >= date '2024-01-08'"))), "files"),
    "filtered by a floating number": (lambda rows: counts(watermarked(rows.where("x > 20.5"))), "rows"),
    "filtered by a function": (lambda rows: counts(watermarked(rows.where("length(s) > 6"))), "rows"),
    "an expression in an aggregate": (
        lambda rows: watermarked(rows).groupBy(F.window("ts", WINDOW)).agg(F.sum(F.col("v") * 2)),
        "rows",
    ),
    "a decimal key and an average": (
        lambda rows: (
            watermarked(rows).groupBy(F.window("ts", WINDOW, "5 seconds"), "n", "d").agg(F.avg("x"), F.min("b"))
        ),
        "files",
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_rows_watermark_and_figures_are_spark_s(spark: SparkSession, tmp_path: Path, name: str) -> None:
    query, path = QUERIES[name]
    assert same_as_spark(spark, query, tmp_path) == {path}


@pytest.mark.parametrize("output", ["complete", "update"])
def test_rows_are_counted_of_which_no_column_is_read(spark: SparkSession, tmp_path: Path, output: str) -> None:
    folder = write(tmp_path / "in", [table(batch) for batch in range(3)])
    results = {
        mode: by_mode(
            stream(spark, folder), tmp_path, lambda rows: rows.groupBy().count(), output, mode, ingest="files"
        )
        for mode in ("off", "require")
    }
    assert results["require"].batches == results["off"].batches
    assert {epoch["ingest"] for epoch in results["require"].progress} == {"files"}


PARTITIONS = {
    "day = 'wanted'": "files",
    # Which of the files are read, is known when another query has ended.
    "day = (SELECT max(name) FROM VALUES ('wanted') AS of_table(name))": "rows",
}


@pytest.mark.parametrize("wanted", PARTITIONS)
def test_a_micro_batch_without_a_file_of_the_wanted_partition_has_no_rows(
    spark: SparkSession, tmp_path: Path, wanted: str
) -> None:
    for batch, day in enumerate(("other", "wanted", "other", "wanted")):
        path = tmp_path / "in" / f"day={day}" / f"{batch}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table(batch), path)
        in_order(path, batch)

    def query() -> DataFrame:
        return counts(watermarked(stream(spark, tmp_path / "in").where(wanted)))

    expected, plain, _ = ran(query(), tmp_path, mode="off")
    found, ours, taken = ran(query(), tmp_path, ingest="files")
    assert expected
    assert found == expected
    assert [entry["numInputRows"] for entry in ours] == [entry["numInputRows"] for entry in plain]
    assert taken == {PARTITIONS[wanted]}


def old(rows: pa.Table) -> pa.Table:
    """A time of before the Gregorian calendar."""
    return rows.set_column(0, "ts", pa.array([datetime(1500, 1, 1, tzinfo=UTC)] * len(rows), pa.timestamp("us", "UTC")))


def test_row_groups_without_a_row_are_skipped_as_spark_skips_them(spark: SparkSession, tmp_path: Path) -> None:
    tables = [table(batch) for batch in range(3)]
    folder = write(tmp_path / "in", tables)

    def query() -> DataFrame:
        return counts(watermarked(stream(spark, folder).where("v > 350")))

    expected, plain, _ = ran(query(), tmp_path, mode="off")
    found, ours, paths = ran(query(), tmp_path, ingest="files")
    assert len(expected) >= 7
    assert found == expected
    assert paths == {"files"}
    read = [entry["numInputRows"] for entry in ours]
    assert read == [entry["numInputRows"] for entry in plain]
    assert 0 < sum(read) < sum(len(rows) for rows in tables) // 2


FILES: dict[str, tuple[list[pa.Table], dict[str, Any], set[str]]] = {
    "INT96": ([table(0), table(1), table(2)], {"use_deprecated_int96_timestamps": True}, {"files"}),
    "dictionaries": ([table(0), table(1), table(2)], {"use_dictionary": ["s", "k"], "compression": "zstd"}, {"files"}),
    "no dictionaries": ([table(0), table(1), table(2)], {"use_dictionary": False, "compression": "none"}, {"files"}),
    "empty file": ([table(0), table(1).slice(0, 0), table(2)], {}, {"files"}),
    "a column of categories": (
        [table(0), table(1).set_column(3, "s", table(1)["s"].dictionary_encode()), table(2)],
        {},
        {"files"},
    ),
    "large strings": ([table(0), table(1).set_column(3, "s", table(1)["s"].cast(pa.large_string()))], {}, {"files"}),
    "another order of columns": ([table(0), table(1).select(["s", "v", "k", "ts", "b", "d", "x", "n"])], {}, {"files"}),
    "a column that is missing": ([table(0), table(1).drop_columns(["s"]), table(2)], {}, {"files", "rows"}),
    "another type": (
        [table(0), table(1).set_column(2, "v", table(1)["v"].cast(pa.int16())), table(2)],
        {},
        {"files", "rows"},
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_all_kinds(spark: SparkSession, tmp_path: Path, name: str) -> None:
    tables, options, paths = FILES[name]
    folder = write(tmp_path / "in", tables, **options)
    schema = spark.read.parquet(str(folder / "0.parquet")).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)

    def query() -> DataFrame:
        return counts(watermarked(source.parquet(str(folder))))

    expected, _, _ = ran(query(), tmp_path, mode="off")
    found, _, taken = ran(query(), tmp_path, ingest="files")
    assert len(expected) >= 7
    assert found == expected
    assert taken == paths


def strings_of(texts: list[bytes]) -> pa.Array:
    """Strings of any bytes, of UTF-8 or not."""
    stored = pa.array(texts, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(stored), stored.buffers())


def test_bytes_that_are_no_utf_8_are_compared_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The second are what Java's strings have in the place of the first."""
    texts = strings_of([[b"\xff", b"\xef\xbf\xbd"][row % 3 % 2] for row in range(400)])
    write(tmp_path / "in", [table(batch).set_column(3, "s", texts) for batch in range(3)])
    expected, found, taken = both(
        spark,
        tmp_path,
        lambda rows: watermarked(rows.where("s = cast(x'ff' AS string)")).groupBy(F.window("ts", WINDOW), "k").count(),
        {},
    )
    assert len(expected) >= 7
    assert found == expected
    assert taken == {"rows"}


def test_a_column_without_a_name_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", [table(batch).rename_columns({"k": ""}) for batch in range(3)])
    expected, found, taken = both(
        spark,
        tmp_path,
        lambda rows: counts(watermarked(rows.toDF("ts", "k", "v", "s", "b", "d", "x", "n"))),
        {},
    )
    assert len(expected) >= 7
    assert found == expected
    assert taken == {"rows"}


def test_small_batches_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path / "in", [table(0), table(1)])
    assert ran(counts(watermarked(stream(spark, folder))), tmp_path, ingest="auto")[2] == {"rows"}


def test_times_before_1900_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path / "in", [old(table(0)), table(1), table(2)])
    schema = spark.read.parquet(str(folder)).schema
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "CORRECTED")
    try:
        source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
        expected, _, _ = ran(counts(watermarked(source)), tmp_path, mode="off")
        found, _, taken = ran(counts(watermarked(source)), tmp_path, ingest="files")
    finally:
        spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInRead")
    assert len(expected) >= 7
    assert found == expected
    assert taken == {"rows"}


def under(
    spark: SparkSession, tmp_path: Path, settings: dict[str, str], use: Callable[[DataFrame], Any], **options: str
) -> Any:
    """What becomes of the files in `in`, read under some Spark settings."""
    folder = tmp_path / "in"
    schema = spark.read.parquet(str(folder / "0.parquet")).schema
    with changed(spark, settings):
        return use(spark.readStream.schema(schema).options(maxFilesPerTrigger=1, **options).parquet(str(folder)))


def both(
    spark: SparkSession, tmp_path: Path, query: Query, settings: dict[str, str], **options: str
) -> tuple[list[Any], list[Any], set[str]]:
    """The rows of Spark, ours, and the paths that ours took."""

    def compared(rows: DataFrame) -> tuple[list[Any], list[Any], set[str]]:
        expected, _, _ = ran(query(rows), tmp_path, mode="off")
        found, _, taken = ran(query(rows), tmp_path, ingest="files")
        return expected, found, taken

    found: tuple[list[Any], list[Any], set[str]] = under(spark, tmp_path, settings, compared, **options)
    return found


CONVERSION = {"spark.sql.parquet.int96TimestampConversion": "true", "spark.sql.session.timeZone": "America/New_York"}


@pytest.mark.parametrize(("int96", "path"), [(True, "rows"), (False, "files")])
def test_int96_times_that_spark_converts_are_left_to_it(
    spark: SparkSession, tmp_path: Path, int96: bool, path: str
) -> None:
    write(tmp_path / "in", [table(0), table(1), table(2)], use_deprecated_int96_timestamps=int96)
    expected, found, taken = both(spark, tmp_path, lambda rows: counts(watermarked(rows)), CONVERSION)
    assert len(expected) >= 7
    assert found == expected
    assert taken == {path}


@pytest.mark.parametrize("option", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_dates_that_a_rebase_moves_are_not_skipped_by_their_statistics(
    spark: SparkSession, tmp_path: Path, option: bool
) -> None:
    """Written as of 15 January by the one calendar, 5 January by the other: the filter holds for that alone."""
    rows = [table(batch) for batch in range(3)]
    write(tmp_path / "in", [one.set_column(5, "d", pa.array([date(1500, 1, 15)] * len(one))) for one in rows])
    set_by_option = {"datetimeRebaseMode": "LEGACY"} if option else {}
    set_by_conf = {} if option else {"spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY"}
    expected, found, taken = both(
        spark,
        tmp_path,
        lambda rows: counts(watermarked(rows.where("d < date '1500-01-10'"))),
        set_by_conf,
        **set_by_option,
    )
    assert len(expected) >= 7
    assert found == expected
    assert taken == {"rows"}


CASES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "another case": lambda rows: rows.rename_columns([name.upper() for name in rows.column_names]),
    "both cases, unread": lambda rows: rows.append_column("X", rows["x"]),
    "both cases": lambda rows: rows.append_column("V", rows["v"]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sensitive", ["true", "false"])
def test_columns_that_differ_in_case(spark: SparkSession, tmp_path: Path, name: str, sensitive: str) -> None:
    write(tmp_path / "in", [table(0), CASES[name](table(1)), table(2)])
    settings = {"spark.sql.caseSensitive": sensitive}

    def query(rows: DataFrame) -> DataFrame:
        return counts(watermarked(rows))

    if (name, sensitive) == ("both cases", "false"):
        for conf in ({"mode": "off"}, {"ingest": "files"}):
            run = partial(lambda conf, rows: ran(query(rows), tmp_path, **conf), conf)
            with pytest.raises(StreamingQueryException, match="FAILED_READ_FILE") as raised:
                under(spark, tmp_path, settings, run)
            assert "duplicate field" in raised.value._stackTrace
        return
    expected, found, _ = both(spark, tmp_path, query, settings)
    assert len(expected) >= 7
    assert found == expected


@pytest.mark.parametrize("option", [pytest.param(True, marks=pytest.mark.nightly), False])
def test_corrupt_files_are_spark_s_to_ignore(spark: SparkSession, tmp_path: Path, option: bool) -> None:
    """Brotli is none of the codecs that Spark comes with."""
    brotli = write(tmp_path / "in", [table(0), table(1), table(2), table(3)]) / "1.parquet"
    pq.write_table(table(1), brotli, compression="brotli")
    in_order(brotli, 1)
    options = {"ignoreCorruptFiles": "true"} if option else {}
    settings = {} if option else {"spark.sql.files.ignoreCorruptFiles": "true"}
    expected, found, taken = both(spark, tmp_path, lambda rows: counts(watermarked(rows)), settings, **options)
    assert len(expected) >= 7
    assert found == expected
    assert taken == {"rows"}


def test_pages_that_are_to_be_verified_are_spark_s_to_read(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", [table(0), table(1), table(2)])
    settings = {"parquet.page.verify-checksum.enabled": "true"}
    expected, found, taken = both(spark, tmp_path, lambda rows: counts(watermarked(rows)), settings)
    assert len(expected) >= 7
    assert found == expected
    assert taken == {"rows"}


def test_windows_of_times_without_a_zone(spark: SparkSession, tmp_path: Path) -> None:
    tables = [table(batch) for batch in range(3)]
    naive = [one.set_column(0, "ts", one["ts"].cast(pa.timestamp("us"))) for one in tables]
    write(tmp_path / "in", naive)
    query = counts(stream(spark, tmp_path / "in"))
    expected = run(query, tmp_path / "off", "update", mode="off")
    found = run(query, tmp_path / "ours", "update", ingest="files")
    assert [sorted(map(repr, one)) for one in found.batches] == [sorted(map(repr, one)) for one in expected.batches]
    assert {epoch["ingest"] for epoch in found.progress} == {"files"}
