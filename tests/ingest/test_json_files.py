"""Files of JSON that native code reads: the same rows as Spark's JSON source gives, whatever they hold."""

from __future__ import annotations

import bz2
import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyslash.spark.jvm_bridge import JvmBridge
from tests.support.inside import Inside, a_task
from tests.support.json_records import SCHEMA, Records
from tests.support.line_files import Reading, hadoops_own_files, lines, settings, splits

SEED = 20261
RECORDS = int(os.environ.get("PYSLASH_JSON_RECORDS", "9000"))  # more for a longer search
CORRUPT = f"{SCHEMA}, _corrupt_record string"
PLAIN = [b'{"number": 1, "text": "x"}', b'{"number": 2, "text": "y"}', b'{"number": null}', b"{}"]


@pytest.fixture(autouse=True)
def hadoops_files(spark: SparkSession) -> Iterator[None]:
    """Native code reads plain files past Hadoop's streams."""
    with hadoops_own_files(spark):
        yield


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_random_files(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """Plain records, odd ones, damaged ones, in splits that begin and end within records."""
    count = 0
    for number in range(3):
        mark = b"\xef\xbb\xbf" if number == 1 else b""
        records = Records(f"{SEED} {mode} {number}").some(RECORDS // 6)
        written = lines(records, number)
        (tmp_path / f"{number}.json").write_bytes(mark + b"".join(written))
        count += len(written)
    with splits(spark, 200_000):
        reading = Reading(spark.read.schema(CORRUPT).option("mode", mode).json(str(tmp_path)))
        rows = reading.check()
        chosen = spark.read.schema(CORRUPT).option("mode", mode).json(str(tmp_path))
        Reading(chosen.selectExpr("text", "number", "deep.number inner", "_corrupt_record")).check()
    assert 0.2 < reading.left_to_spark / 2 / count < 0.9  # both ways are taken, in each of two readings
    assert (rows["_corrupt_record"].null_count < len(rows)) == (mode == "PERMISSIVE")


@pytest.mark.parametrize(("size", "is_plain"), [(1, True), (3, True), (3, False), (20, True), (1000, True)])
def test_splits_anywhere(spark: SparkSession, tmp_path: Path, size: int, is_plain: bool) -> None:
    """Every record is read once, wherever splits begin: between the two bytes of a line's end, or of an order mark.

    From plain files, and through the streams of a file system that is not known.
    """
    if not is_plain:
        spark.conf.unset("fs.file.impl.disable.cache")
    ends = [b"\n", b"\r\n", b"\r", b"\n\n", b"\r\r", b"\r\n\r\n", b"\n\r"]
    for mark in (b"", b"\xef\xbb\xbf"):
        text = mark + b"".join(b'{"a":%d}%s' % (i, ends[i % len(ends)]) for i in range(14))
        (tmp_path / f"{len(mark)}.json").write_bytes(text + (b'{"a":99}' if mark else b""))
    with splits(spark, size):
        found = Reading(spark.read.schema("a int").json(str(tmp_path))).check()
    assert sorted(found["a"].to_pylist()) == sorted([*range(14), *range(14), 99])


def test_long_lines(spark: SparkSession, tmp_path: Path) -> None:
    """Longer than a page, and longer than native code reads; and a name that Jackson does not read."""
    long = [b'{"text": "%s", "number": %d}' % (b"x" * size, size) for size in (10, 300_000, 600_000, 1_100_000, 20)]
    named = [b'{"%s": 1, "number": 5}' % (b"n" * size) for size in (49_000, 50_001, 60_000)]
    (tmp_path / "long.json").write_bytes(b"\n".join([*long, *named]))
    Reading(spark.read.schema("text string, number int, _corrupt_record string").json(str(tmp_path))).check()


@pytest.mark.timeout(120)  # seconds, if each byte of the line is looked at a few times
def test_one_line_of_many_splits(spark: SparkSession, tmp_path: Path) -> None:
    """All records in one array, as programs dump them: no task looks through the line again and again."""
    records = b",".join(b'{"number": %d, "text": "%s"}' % (number, b"x" * 200) for number in range(100_000))
    (tmp_path / "array.json").write_bytes(b"[" + records + b"]\n" + b'{"number": -1}\n')
    with splits(spark, 4_000_000):
        assert len(Reading(spark.read.schema("number int, text string").json(str(tmp_path))).check()) == 100_001


def test_pages_end_anywhere(spark: SparkSession, tmp_path: Path) -> None:
    """Within characters of several bytes, between records, and between the two bytes of a line's end."""
    characters = "ü漢😀".encode()
    for shift in range(4):
        records = [b'{"number": %d, "text": "%s"}\r\n' % (i, characters * (i % 40)) for i in range(6000)]
        (tmp_path / f"{shift}.json").write_bytes(b" " * shift + b"".join(records))
    even = b"".join(b'{"number":%d}\r\n' % (10_000_000 + i) for i in range(40_000))
    text = b"\n" * 3 + even  # lines of 21 bytes, so that the first page of 512 KiB ends between the two of an end
    assert text[(1 << 19) - 1 : (1 << 19) + 1] == b"\r\n"
    (tmp_path / "even.json").write_bytes(text)
    reading = Reading(spark.read.schema("number int, text string, _corrupt_record string").json(str(tmp_path)))
    assert len(reading.check()) == 64_000
    assert reading.left_to_spark == 0


def test_plain_files_are_read_natively(spark: SparkSession, tmp_path: Path) -> None:
    """No record of what programs write is left to Spark."""
    schema = SCHEMA.replace(", list array<int>", "")
    records = [record.translate(None, b"\r\n") for record in Records(SEED).plain(1000)]
    (tmp_path / "plain.json").write_bytes(b"\n".join(records))
    reading = Reading(spark.read.schema(schema).json(str(tmp_path)))
    assert len(reading.check()) == 1000
    assert reading.left_to_spark == 0


def test_a_bad_record_fails_as_spark_has_it_fail(spark: SparkSession, tmp_path: Path) -> None:
    """In FAILFAST mode, by Spark's own error."""
    path = tmp_path / "records.json"
    path.write_bytes(b"\n".join(PLAIN))
    rows = spark.read.schema("number int, text string").option("mode", "failfast").json(str(path))
    reading = Reading(rows)
    reading.check()
    assert reading.left_to_spark == 0
    path.write_bytes(b"\n".join([*PLAIN, b'{"number": 7']))
    Reading(spark.read.schema(rows.schema).option("mode", "failfast").json(str(path))).check_failure()


@pytest.mark.parametrize(
    "condition",
    [
        "number > 1",
        "text is not null",
        "number is null",
        "number is null or text = 'y'",
        "text like 'x%' and number < 9",
    ],
)
@pytest.mark.parametrize("pushed", ["true", "false"])
def test_filters(spark: SparkSession, tmp_path: Path, condition: str, pushed: str) -> None:
    """A record is passed over, and not counted, exactly where Spark's parser passes over it."""
    absent = [b'{"text": "y"}', b'{"number": 5}', b'{"text": null}', b'{"text": "x", "number": "?"}', b'{"number": 0']
    (tmp_path / "records.json").write_bytes(b"\n".join([*PLAIN, *absent, *PLAIN]))
    with settings(spark, json__filterPushdown__enabled=pushed):
        rows = spark.read.schema("number int, _corrupt_record string, text string").json(str(tmp_path))
        Reading(rows.where(condition)).check()


def test_compressed_files(spark: SparkSession, tmp_path: Path) -> None:
    """By Hadoop's codecs; Spark divides what can be divided."""
    text = b"\xef\xbb\xbf" + b"".join(lines(Records(SEED).some(500), 1))
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(text))
    (tmp_path / "b.json.bz2").write_bytes(bz2.compress(text))
    with splits(spark, 20_000):
        Reading(spark.read.schema(CORRUPT).json(str(tmp_path))).check()


def test_files_with_checksums(spark: SparkSession, tmp_path: Path) -> None:
    """Hadoop's streams check what Hadoop has written, and count bytes; those of a plain file are counted alike."""
    written = tmp_path / "written"
    spark.range(0, 30_000, 1, 1).selectExpr("id number", "repeat('x', 20) text").write.json(str(written))
    (path,) = written.glob("*.json")
    bare = tmp_path / path.name
    bare.write_bytes(path.read_bytes())
    hadoop = spark._jvm.org.apache.hadoop.fs
    raw = spark._jvm.java.lang.Class.forName("org.apache.hadoop.fs.RawLocalFileSystem")
    counted = []
    for one in (path, bare):
        reading = Reading(spark.read.schema("number int, text string").json(str(one)))
        reading.check()
        before = hadoop.FileSystem.getStatistics("file", raw).getBytesRead()
        reading.natively.toArrow()
        counted.append(hadoop.FileSystem.getStatistics("file", raw).getBytesRead() - before)
    size = path.stat().st_size
    assert counted[1] == size <= counted[0] < 1.1 * size
    damaged = path.read_bytes().replace(b"20000", b"20001")
    path.write_bytes(damaged)
    reading = Reading(spark.read.schema("number int, text string").json(str(path)))
    for rows in (reading.by_spark, reading.natively):
        with pytest.raises((PySparkException, Py4JJavaError), match="hecksum"):
            rows.collect()


def test_partition_and_metadata_columns(spark: SparkSession, tmp_path: Path) -> None:
    """They are Spark's own."""
    for day in ("2020-01-01", "2020-01-02"):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "records.json").write_bytes(b"\n".join([*PLAIN, b"{"]))
        (tmp_path / f"day={day}" / "records.txt").write_bytes(b'{"number": 77}')
    reader = spark.read.schema("number int, text string, day date").option("pathGlobFilter", "*.json")
    rows = reader.json(str(tmp_path))
    assert len(Reading(rows).check()) == 10
    named = rows.selectExpr("number", "day", "_metadata.file_name", "_metadata.file_size", "input_file_name() at")
    Reading(named).check()
    Reading(rows.where("day = '2020-01-02'").select("text", "day")).check()


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("multiLine", "true", "the JSON source has the option multiline"),
        ("lineSep", "\n", "the JSON source has the option linesep"),
        ("encoding", "UTF-16LE", "the JSON source has the option encoding"),
        ("timestampFormat", "yyyy", "the JSON source has the option timestampformat"),
        ("allowComments", "true", "the JSON source has the option allowcomments"),
        ("ignoreCorruptFiles", "true", "corrupt files are ignored"),
    ],
)
def test_what_only_spark_reads(spark: SparkSession, tmp_path: Path, option: str, value: str, reason: str) -> None:
    """Options that change what is read: the plan is Spark's own, and the reason is told."""
    (tmp_path / "records.json").write_bytes(b"\n".join(PLAIN))
    reader = spark.read.schema("number int").option("lineSep", "\n") if option == "encoding" else spark.read
    rows = reader.schema("number int").option(option, value).json(str(tmp_path))
    plan = rows._jdf.queryExecution().executedPlan()
    json = JvmBridge(spark).java.natively(plan)
    assert json.plan().equals(plan)
    assert len(json.obstacles()) == 1
    found = str(json.obstacles()[0]).lower()
    assert found.startswith((reason.lower(), "the json source has the option linesep"))


@pytest.mark.parametrize("schema", ["number int, any variant", "number int, deep struct<any: variant>"])
def test_what_is_null_of_a_variant_is_sparks(spark: SparkSession, tmp_path: Path, schema: str) -> None:
    """It makes a value of it, but not of what a record lacks."""
    (tmp_path / "records.json").write_bytes(b'{"number":1,"any":null}\n{"any":7}\n{"deep":{"any":null}}\n{"deep":{}}')
    any_is = "any is null" if schema.endswith("any variant") else "deep.any is null"
    reading = Reading(spark.read.schema(schema).json(str(tmp_path)).selectExpr("number", any_is))
    assert reading.natively.toArrow().equals(reading.by_spark.toArrow())
    assert reading.obstacles == ["the JSON source has the column any of the type variant"]


def test_a_file_is_closed_that_native_code_cannot_read(spark: SparkSession, tmp_path: Path) -> None:
    """Where it has no reader for the columns, nor memory: when the task ends."""
    path = tmp_path / "records.json"
    path.write_bytes(b"{}")
    jvm: Any = spark._jvm
    conf, columns = spark._jsparkSession.sessionState().conf(), spark.createDataFrame([], "number int")._jdf.schema()
    filters, options = jvm.java.util.ArrayList(), jvm.java.util.HashMap()
    source = Inside(spark, "records.LineRecords$Source").new(conf, columns, columns, filters, options)
    json = jvm.org.apache.spark.sql.execution.datasources.json.JsonFileFormat()
    records = Inside(spark, "records.LineRecords").call(None, "of", json, source)
    Inside(spark, "records.JsonRecords").field("schema").set(records, b"of no format")
    files = Path("/proc", str(jvm.java.lang.ProcessHandle.current().pid()), "fd")

    def is_open() -> bool:
        return path.resolve() in {one.resolve() for one in files.iterdir()}

    with a_task(spark):
        opened = Inside(spark, "records.TextBytes$Streamed").new(jvm.java.io.FileInputStream(str(path)), None)
        assert is_open()
        with pytest.raises(Py4JJavaError, match="no format of records"):
            Inside(spark, "records.LineRows").new(records, None, opened, 0, 2, False, None)
    assert not is_open()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_a_million_random_records(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """In files of other seeds, read in splits of other sizes."""
    (tmp_path / "records.json").write_bytes(b"".join(lines(Records(seed).some(100_000), seed)))
    with splits(spark, 1_000_003 + 12_345 * seed):
        reading = Reading(spark.read.schema(CORRUPT).json(str(tmp_path)))
        reading.check()
    assert 20_000 < reading.left_to_spark < 95_000
