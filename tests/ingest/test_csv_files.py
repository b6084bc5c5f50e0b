"""Files of CSV that native code reads: the same rows as Spark's CSV source gives, whatever they hold."""

from __future__ import annotations

import bz2
import gzip
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DecimalType, IntegerType, StructField, StructType

from pyslash.spark.jvm_bridge import JvmBridge
from tests.support.csv_records import COLUMNS, SCHEMA, Records
from tests.support.line_files import Reading, hadoops_own_files, lines, settings, splits

SEED = 20262
RECORDS = int(os.environ.get("PYSLASH_CSV_RECORDS", "9000"))  # more for a longer search
CORRUPT = f"{SCHEMA}, _corrupt_record string"
PLAIN = [b"1,x", b"2,y", b",", b'3,"z"']


@pytest.fixture(autouse=True)
def hadoops_files(spark: SparkSession) -> Iterator[None]:
    """Native code reads plain files past Hadoop's streams."""
    with hadoops_own_files(spark):
        yield


def read(spark: SparkSession, path: Path, schema: str, **options: str) -> DataFrame:
    """Spark's CSV source."""
    return spark.read.schema(schema).options(**options).csv(str(path))


@pytest.mark.parametrize(
    ("mode", "zone"), [("PERMISSIVE", "+05:30"), ("DROPMALFORMED", "UTC"), ("PERMISSIVE", "Europe/Berlin")]
)
def test_random_files(spark: SparkSession, tmp_path: Path, mode: str, zone: str) -> None:
    """Plain lines, odd ones, damaged ones, in splits that begin and end within lines; all columns, some, and one."""
    count = 0
    for number in range(2):
        mark = b"\xef\xbb\xbf" if number == 1 else b""
        written = lines(Records(f"{SEED} {mode} {zone} {number}").some(RECORDS // 6), number)
        (tmp_path / f"{number}.csv").write_bytes(mark + b"".join(written))
        count += len(written)
    with splits(spark, 100_000), settings(spark, session__timeZone=zone):
        reading = Reading(read(spark, tmp_path, CORRUPT, mode=mode))
        rows = reading.check()
        some = read(spark, tmp_path, CORRUPT, mode=mode)
        Reading(some.select("other", "number", "text", "at", "_corrupt_record")).check()
        Reading(some.select("text")).check()
        Reading(some.select("flag")).check()
    assert 0.2 < reading.left_to_spark / count < 0.9  # both ways are taken
    assert (rows["_corrupt_record"].null_count < len(rows)) == (mode == "PERMISSIVE")


@pytest.mark.parametrize(
    "options",
    [
        {"sep": "\t"},
        {"sep": ";", "escape": '"'},
        {"sep": "\\t", "nullValue": "NA"},
        {"nullValue": "5", "escape": '"', "header": "true"},
        {
            "delimiter": "|",
            "quote": '"',
            "encoding": "utf-8",
            "ignoreLeadingWhiteSpace": "false",
            "preferDate": "false",
        },
    ],
)
def test_options(spark: SparkSession, tmp_path: Path, options: dict[str, str]) -> None:
    """Those that native code knows: what separates fields, what escapes a quote, and what is null."""
    separator = options.get("sep", options.get("delimiter", ",")).replace("\\t", "\t")
    records = Records(f"{SEED} {options}", separator).some(RECORDS // 9)
    (tmp_path / "records.csv").write_bytes(b"".join(lines(records, 1)))
    reading = Reading(read(spark, tmp_path, CORRUPT, **options))
    assert len(reading.check()) > 0
    assert reading.left_to_spark < 0.9 * len(records)
    Reading(read(spark, tmp_path, CORRUPT, **options).select("other", "text", "number")).check()


def test_all_columns_are_parsed_without_pruning(spark: SparkSession, tmp_path: Path) -> None:
    """The number of fields then counts, whatever columns are read."""
    (tmp_path / "records.csv").write_bytes(b"".join(lines(Records(SEED).some(500), 1)))
    with settings(spark, csv__parser__columnPruning__enabled="false"):
        Reading(read(spark, tmp_path, CORRUPT).select("text", "number", "_corrupt_record")).check()


@pytest.mark.parametrize(("size", "is_plain"), [(1, True), (3, True), (3, False), (20, True), (1000, True)])
def test_splits_anywhere(spark: SparkSession, tmp_path: Path, size: int, is_plain: bool) -> None:
    """Every record is read once, and no header as a record, wherever splits begin.

    From plain files, and through the streams of a file system that is not known.
    """
    if not is_plain:
        spark.conf.unset("fs.file.impl.disable.cache")
    ends = [b"\n", b"\r\n", b"\r", b"\n\n", b"\r\r", b"\n \r\n", b"\n\r"]
    for mark in (b"", b"\xef\xbb\xbf"):
        text = mark + b"a,b\r\n" + b"".join(b"%d,x%s" % (i, ends[i % len(ends)]) for i in range(14))
        (tmp_path / f"{len(mark)}.csv").write_bytes(text + (b"99,y" if mark else b""))
    with splits(spark, size):
        found = Reading(read(spark, tmp_path, "a int, b string", header="true")).check()
    assert sorted(found["a"].to_pylist()) == sorted([*range(14), *range(14), 99])


@pytest.mark.parametrize(
    "text", [b"", b"\n \n\t\n", b"a,b", b"a,b\n", b"\r\n\r\nx,y,z\n1,2", b'"a","b"\n1,2', b"A,b\n3,4"]
)
def test_headers(spark: SparkSession, tmp_path: Path, text: bytes) -> None:
    """A file may have nothing but a header, or not even that; other names than the schema's are Spark's to judge."""
    (tmp_path / "records.csv").write_bytes(text)
    Reading(read(spark, tmp_path, "a int, b int", header="true")).check()
    reading = Reading(read(spark, tmp_path, "a int, b int", header="true", enforceSchema="false"))
    judged = []
    for rows in (reading.by_spark, reading.natively):
        try:
            judged.append(rows.toArrow())
        except (PySparkException, Py4JJavaError) as failure:
            judged.append(re.findall(r"CSV header[^\n]*|Header[^\n]*|Schema[^\n]*", str(failure))[:4])
    assert judged[0] == judged[1]


def test_an_order_mark_within_a_file(spark: SparkSession, tmp_path: Path) -> None:
    """Of files that were put together: Univocity drops it from the first line of a split, and of no other."""
    (tmp_path / "records.csv").write_bytes(b"1,x\n2,y\n\xef\xbb\xbf3,z\n4,w\n")
    rows = Reading(read(spark, tmp_path, "number int, text string, _corrupt_record string")).check()
    assert rows["number"].to_pylist() == [1, 2, None, 4]


def test_long_lines_and_many_fields(spark: SparkSession, tmp_path: Path) -> None:
    """Longer than a page, longer than native code reads; more fields than Univocity reads."""
    long = [b"%s,%d" % (b"x" * size, size) for size in (10, 300_000, 600_000, 1_048_573, 1_048_580, 1_100_000, 20)]
    many = [b",".join([b"1"] * count) for count in (9_000, 19_999, 20_000, 20_001, 20_480)]
    (tmp_path / "long.csv").write_bytes(b"\n".join([*long, *many]))
    rows = read(spark, tmp_path, "text string, number int, _corrupt_record string")
    Reading(rows).check()
    Reading(rows.select("text")).check()


def test_pages_end_anywhere(spark: SparkSession, tmp_path: Path) -> None:
    """Within characters of several bytes, within fields, and between the two bytes of a line's end."""
    characters = "ü漢😀".encode()
    for shift in range(4):
        records = [b'%d,"%s,"\r\n' % (i, characters * (i % 40 + 1)) for i in range(6000)]
        (tmp_path / f"{shift}.csv").write_bytes(b" " * shift + b"\r\n" + b"".join(records))
    reading = Reading(read(spark, tmp_path, "number int, text string, _corrupt_record string"))
    assert len(reading.check()) == 24_000
    assert reading.left_to_spark == 0


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_what_a_reader_of_times_begins_with_is_no_time(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """The minute of the last time is not read again; before the first one there is none to equal."""
    (tmp_path / "records.csv").write_bytes(b"1," + bytes(17) + b"12\n2,1970-01-01T00:00:07\n")
    rows = Reading(read(spark, tmp_path, f"number int, at {kind}, _corrupt_record string")).check()
    assert rows["at"].is_null().to_pylist() == [True, False]


def test_plain_files_are_read_natively(spark: SparkSession, tmp_path: Path) -> None:
    """No line of what programs write is left to Spark."""
    (tmp_path / "plain.csv").write_bytes(b"\n".join(Records(SEED).plain(1000)))
    reading = Reading(read(spark, tmp_path, SCHEMA))
    assert len(reading.check()) == 1000
    assert reading.left_to_spark == 0


def test_a_bad_record_fails_as_spark_has_it_fail(spark: SparkSession, tmp_path: Path) -> None:
    """In FAILFAST mode, by Spark's own error."""
    path = tmp_path / "records.csv"
    path.write_bytes(b"\n".join(PLAIN))
    reading = Reading(read(spark, path, "number int, text string", mode="failfast"))
    reading.check()
    assert reading.left_to_spark == 0
    path.write_bytes(b"\n".join([*PLAIN, b"7x,y"]))
    Reading(read(spark, path, "number int, text string", mode="failfast")).check_failure()


@pytest.mark.parametrize(
    "condition",
    [
        "number > 1",
        "text is not null",
        "number is null",
        "number is null or text = 'y'",
        "text like 'x%' and number < 9",
        "_corrupt_record is null and number > 1",
    ],
)
@pytest.mark.parametrize("pushed", ["true", "false"])
def test_filters(spark: SparkSession, tmp_path: Path, condition: str, pushed: str) -> None:
    """A record is passed over, and not counted, exactly where Spark's parser passes over it."""
    odd = [b"5", b"1,x,z", b"?,x", b"0,", b'"2","x"', b'2,"x']
    (tmp_path / "records.csv").write_bytes(b"\n".join([*PLAIN, *odd, *PLAIN]))
    with settings(spark, csv__filterPushdown__enabled=pushed):
        rows = read(spark, tmp_path, "number int, _corrupt_record string, text string")
        Reading(rows.where(condition)).check()


def test_compressed_files(spark: SparkSession, tmp_path: Path) -> None:
    """By Hadoop's codecs; Spark divides what can be divided."""
    text = b"\xef\xbb\xbf" + b"".join(lines(Records(SEED).some(500), 1))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text))
    (tmp_path / "b.csv.bz2").write_bytes(bz2.compress(text))
    with splits(spark, 20_000):
        Reading(read(spark, tmp_path, CORRUPT, header="true")).check()


def test_partition_and_metadata_columns(spark: SparkSession, tmp_path: Path) -> None:
    """They are Spark's own."""
    for day in ("2020-01-01", "2020-01-02"):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "records.csv").write_bytes(b"\n".join([*PLAIN, b"x"]))
    rows = read(spark, tmp_path, "number int, text string, day date")
    assert len(Reading(rows).check()) == 10
    Reading(
        rows.selectExpr("number", "day", "_metadata.file_name", "_metadata.file_size", "input_file_name() at")
    ).check()
    Reading(rows.where("day = '2020-01-02'").select("text", "day")).check()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("multiLine", "true"),
        ("lineSep", "\n"),
        ("encoding", "ISO-8859-1"),
        ("timestampFormat", "yyyy"),
        ("comment", "#"),
        ("sep", "||"),
        ("sep", "ü"),
        ("quote", "'"),
        ("quote", ""),
        ("escape", "#"),
        ("emptyValue", "x"),
        ("ignoreTrailingWhiteSpace", "true"),
        ("maxCharsPerColumn", "10"),
        ("charToEscapeQuoteEscaping", "x"),
        ("nanValue", "1"),
        ("locale", "de"),
        ("dateFormat", "yyyy"),
    ],
)
def test_what_only_spark_reads(spark: SparkSession, tmp_path: Path, option: str, value: str) -> None:
    """Options that change what is read: the plan is Spark's own, and the reason is told."""
    (tmp_path / "records.csv").write_bytes(b"\n".join(PLAIN))
    plan = read(spark, tmp_path, "number int", **{option: value})._jdf.queryExecution().executedPlan()
    found = JvmBridge(spark).java.natively(plan)
    assert found.plan().equals(plan)
    assert [str(reason).lower() for reason in found.obstacles()] == [f"the csv source has the option {option.lower()}"]


def test_what_is_null_of_a_variant_is_sparks(spark: SparkSession, tmp_path: Path) -> None:
    """It makes a value of it; a column that nobody reads may be of any type."""
    (tmp_path / "records.csv").write_bytes(b'1,\n2,""\n3,7\n4')
    rows = read(spark, tmp_path, "number int, any variant")
    reading = Reading(rows.selectExpr("number", "any is null"))
    assert reading.natively.toArrow().equals(reading.by_spark.toArrow())
    assert reading.obstacles == ["the CSV source has the column any of the type variant"]
    assert Reading(rows.select("number")).check()["number"].to_pylist() == [1, 2, 3, 4]


def test_more_columns_than_native_code_reads(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's parser has room for some more."""
    (tmp_path / "records.csv").write_bytes(b",".join(b"%d" % place for place in range(20_010)) + b"\n1,2\n")
    rows = spark.read.schema(StructType([StructField(f"c{i}", IntegerType()) for i in range(20_010)]))
    for columns, reasons in (
        (["c19999", "c7"], []),
        (["c20000", "c7"], ["the CSV source has more than 20000 columns"]),
    ):
        reading = Reading(rows.csv(str(tmp_path)).select(*columns))
        assert reading.natively.toArrow().equals(reading.by_spark.toArrow())
        assert reading.obstacles == reasons


def test_decimals_of_negative_scale(spark: SparkSession, tmp_path: Path) -> None:
    """Native code has none: only null is read."""
    (tmp_path / "records.csv").write_bytes(b"1200,1\n,2\n")
    schema = StructType([StructField("price", DecimalType(5, -2)), StructField("number", IntegerType())])
    with settings(spark, legacy__allowNegativeScaleOfDecimal="true"):
        reading = Reading(spark.read.schema(schema).csv(str(tmp_path)))
        reading.check()
        assert reading.left_to_spark == 1


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_a_million_random_records(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """In files of other seeds, read in splits of other sizes; all columns, and some."""
    (tmp_path / "records.csv").write_bytes(b"".join(lines(Records(seed).some(100_000), seed)))
    chosen = ["_corrupt_record", *list(COLUMNS)[seed : seed + 5]]
    with splits(spark, 1_000_003 + 12_345 * seed):
        reading = Reading(read(spark, tmp_path, CORRUPT))
        reading.check()
        Reading(read(spark, tmp_path, CORRUPT).select(*chosen)).check()
    assert 20_000 < reading.left_to_spark < 95_000
