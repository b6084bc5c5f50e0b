"""Records of Avro that native code reads: the rows of Spark's own from_avro, whatever the schemas and records."""

from __future__ import annotations

import json
import os
import random
import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

import pyslash
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.session import changed
from tests.pipelines.test_kafka import produce, source
from tests.support.avro_records import AvroRecords, long_bytes, sized
from tests.support.record_stream import START, Run
from tests.support.same_rows import assert_same, assert_same_bytes

pytestmark = pytest.mark.usefixtures("avro_jars")
SCHEMAS = int(os.environ.get("PYSLASH_AVRO_SCHEMAS", "60"))  # more for a longer search
RECORDS = 100
PERMISSIVE = {"mode": "PERMISSIVE"}


class Reading:
    """A from_avro of records, by Spark and with native code."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        records: Sequence[bytes | None],
        schema: str,
        options: dict[str, str],
        query: Callable[[DataFrame], DataFrame] = lambda rows: rows.select("found", "found.*"),
    ) -> None:
        """`query`: of rows with the column `found`."""
        path = folder / "records.parquet"  # of a local relation the optimizer would read the records
        pq.write_table(pa.table({"value": pa.array(records, pa.binary())}), path)
        parsed = spark.read.parquet(str(path)).select(from_avro("value", schema, options).alias("found"))
        self.by_spark = query(parsed)
        with changed(spark, {"spark.sql.adaptive.enabled": "false"}):  # as in micro-batches
            self._plan = self.by_spark._jdf.queryExecution().executedPlan()
        self._avro, self.natively = self._read()
        self.is_native = not self._avro.plan().equals(self._plan)

    def _read(self) -> tuple[Any, DataFrame]:
        """The plan with native code, and its rows."""
        spark = self.by_spark.sparkSession
        bridge = JvmBridge(spark).java
        avro = bridge.natively(self._plan)
        return avro, DataFrame(bridge.again(spark._jsparkSession, avro.plan()), spark)

    @property
    def left_to_spark(self) -> int:
        """Records."""
        return int(self._avro.leftToSpark())

    @property
    def obstacles(self) -> list[str]:
        """Why Spark reads all of them."""
        return [str(reason) for reason in self._avro.obstacles()]

    def check(self, records: Sequence[bytes | None]) -> Reading:
        """Compare both readings bit by bit."""
        expected, found = self.by_spark.toArrow(), self.natively.toArrow()
        assert_same(found, expected, lambda row: records[row])
        _, again = self._read()  # whose records are counted apart
        assert_same_bytes(again, self.by_spark, lambda row: records[row])
        return self


def test_random_schemas(spark: SparkSession, tmp_path: Path) -> None:
    """Plain records, odd ones, damaged ones; all fields, and some."""
    read = left = refused = 0
    for seed in range(SCHEMAS):
        made = AvroRecords(seed)
        records = [*made.some(RECORDS), None]
        reading = Reading(spark, tmp_path, records, made.schema, PERMISSIVE).check(records)
        some = [f"found.{field}" for field in made.fields[:: seed % 3 + 1]]
        Reading(spark, tmp_path, records, made.schema, PERMISSIVE, lambda rows, some=some: rows.select(*some)).check(
            records
        )
        refused += bool(reading.obstacles)
        if not reading.obstacles:
            read += len(records)
            left += reading.left_to_spark
    assert 0.1 < refused / SCHEMAS < 0.9
    assert 0.05 < left / read < 0.9  # both ways are taken


def test_plain_records_are_read_natively(spark: SparkSession, tmp_path: Path) -> None:
    """What programs write: no record of it is left to Spark."""
    for seed in range(12):
        made = AvroRecords(f"plain {seed}", plain=True)
        records = made.some(RECORDS)
        reading = Reading(spark, tmp_path, records, made.schema, {}).check(records)
        assert reading.obstacles == []
        assert reading.left_to_spark == 0


def record(*fields: object) -> str:
    """A schema; a field is its type."""
    named = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(fields)]
    return json.dumps({"type": "record", "name": "r", "fields": named})


def test_structs_have_the_bytes_that_spark_gives_them(spark: SparkSession, tmp_path: Path) -> None:
    """Also where a decimal is null that only Spark reads."""
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 4}
    fixed = {"type": "fixed", "name": "x", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 0}
    fields = [
        {"name": "w", "type": ["null", wide]},
        {"name": "x", "type": [fixed, "null"]},
        {"name": "t", "type": "string"},
    ]
    inner = {"type": "record", "name": "s", "fields": fields}
    records = [b"\x00\x00\x02\x02t\x02", b"\x00\x02\x02\x05\x02\x00\x04", b"\x00\x00\x02\x00\x00"]
    reading = Reading(spark, tmp_path, records, record(["null", wide], inner, "int"), {}).check(records)
    assert (reading.left_to_spark, reading.obstacles) == (1, [])


LIST = {"type": "array", "items": "string"}


def ranked(rows: DataFrame) -> DataFrame:
    """Numbers, by a window function."""
    return rows.sparkSession.range(9).select("id", F.rank().over(Window.orderBy("id")).alias("rank"))


@pytest.mark.parametrize(
    "query",
    [
        lambda rows: rows.select("found.f0", "found.f3.g0"),
        lambda rows: rows.where("found.f0 > 0").select("found.f2"),
        lambda rows: rows.where("found.f0 > 0").select("found").select("found.f2"),
        lambda rows: rows.join(F.broadcast(rows.sparkSession.range(9)), F.col("found.f0") == F.col("id")).select(
            "found.f2"
        ),
        lambda rows: rows.observe("seen", F.max("found.f0")).select("found.f2"),
        lambda rows: rows.join(F.broadcast(ranked(rows)), F.col("found.f0") == F.col("id")).select("found.f2", "rank"),
    ],
    ids=["fields", "filter", "passed on", "static join", "observe", "join with ranks"],
)
def test_what_is_not_looked_at_is_passed_over(
    spark: SparkSession, tmp_path: Path, query: Callable[[DataFrame], DataFrame]
) -> None:
    """A list keeps native code from no record, wherever it is."""
    inner = {"type": "record", "name": "n", "fields": [{"name": "g0", "type": "int"}]}
    schema = record("int", LIST, "string", inner, {**inner, "name": "m", "fields": [{"name": "l", "type": LIST}]})
    records = [b"\x02\x02\x02a\x00\x04bc\x02\x00", b"\x04\x00\x00\x04\x02\x02z\x00", b"\x01\x00\x00\x04\x00"]
    reading = Reading(spark, tmp_path, records, schema, {}, query).check(records)
    assert (reading.is_native, reading.left_to_spark, reading.obstacles) == (True, 0, [])


@pytest.mark.parametrize(
    "query",
    [
        lambda rows: rows.select("found"),
        lambda rows: rows.where("found.f1 IS NOT NULL").select("found.f0"),
        lambda rows: rows.select(F.col("found").withField("x", F.lit(1)).alias("made")).select("made.f1"),
        lambda rows: rows.select(F.hash("found")),
    ],
    ids=["whole", "filter", "changed", "hashed"],
)
def test_what_is_looked_at_is_read(
    spark: SparkSession, tmp_path: Path, query: Callable[[DataFrame], DataFrame]
) -> None:
    """Or may be."""
    records = [b"\x02\x02\x02a\x00"]
    reading = Reading(spark, tmp_path, records, record("int", LIST), {}, query).check(records)
    assert {*reading.obstacles} == {"from_avro has the field f1 of the type array<string>"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("int", b"\x80\x80\x80\x80\x80\x00"),
        (["null", "int"], b"\x80\x80\x80\x80\x80\x00"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x80\x80\x80\x80\x80\x00"),
        ({"type": "string", "avro.java.string": "String"}, b"\x02\xff"),
    ],
)
def test_what_avros_reader_sees_otherwise_is_sparks(
    spark: SparkSession, tmp_path: Path, schema: object, value: bytes
) -> None:
    """Integers of more bytes than it takes; bytes that are no string of Java's."""
    reading = Reading(spark, tmp_path, [value], record(schema), PERMISSIVE).check([value])
    assert (reading.left_to_spark, reading.obstacles) == (1, [])


def test_a_default_of_another_type_is_nobodys(spark: SparkSession, tmp_path: Path) -> None:
    """Spark does not look at it."""
    schema = json.loads(record("int", "null"))
    schema["fields"][0]["default"] = "none"
    reading = Reading(spark, tmp_path, [b"\x02"], json.dumps(schema), {}).check([b"\x02"])
    assert (reading.left_to_spark, reading.obstacles) == (0, [])


def test_a_bad_record_fails_as_spark_has_it_fail(spark: SparkSession, tmp_path: Path) -> None:
    """By Spark's own error."""
    reading = Reading(spark, tmp_path, [b"\x02", b"\x80"], record("int"), {"mode": "FAILFAST"})
    said = set()
    for rows in (reading.by_spark, reading.natively):
        with pytest.raises((PySparkException, Py4JJavaError), match="Malformed records are detected") as failure:
            rows.collect()
        said.update(re.findall(r"Malformed records .*", str(failure.value)))
    assert len(said) == 1


@pytest.mark.parametrize(
    ("schema", "options", "reason"),
    [
        (record("int"), {"avroSchema": record("int")}, "from_avro has the option avroSchema"),
        ('"int"', {}, "from_avro gives int, not a struct"),
        (record({"type": "fixed", "name": "x", "size": 4}), {}, "from_avro has the field f0 of the type binary"),
        (record({"type": "string", "java-class": "java.net.URI"}), {}, "from_avro has the field f0 of the type string"),
        (record("int"), {"datetimeRebaseMode": "legacy"}, "from_avro has the option datetimeRebaseMode"),
    ],
)
def test_what_only_spark_reads(
    spark: SparkSession, tmp_path: Path, schema: str, options: dict[str, str], reason: str
) -> None:
    """The plan is Spark's own, and the reason is told."""
    path = tmp_path / "records.parquet"
    pq.write_table(pa.table({"value": pa.array([b"\x02"], pa.binary())}), path)
    rows = spark.read.parquet(str(path)).select(from_avro("value", schema, options).alias("found"))
    plan = rows._jdf.queryExecution().executedPlan()
    avro = JvmBridge(spark).java.natively(plan)
    assert avro.plan().equals(plan)
    assert [str(one) for one in avro.obstacles()] == [reason]


EVENT = json.dumps(
    {
        "type": "record",
        "name": "Event",
        "fields": [
            {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "k", "type": ["null", "string"]},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "v", "type": "double"},
        ],
    }
)


def events(part: int, count: int) -> list[bytes]:
    """Behind headers; the list of one in twenty is written in blocks that tell their size, which is Spark's to read."""
    draw, found = random.Random(part), []
    for number in range(count):
        seconds = START + 40 * part + number * 0.01 - (200 if draw.random() < 0.01 else draw.random())
        tags = b"\x01\x04\x02t\x00" if draw.random() < 0.05 else b"\x02\x02t\x00"
        key = b"\x00" if draw.random() < 0.1 else b"\x02" + sized(f"user-{draw.randrange(50)}".encode())
        event = long_bytes(int(seconds * 1e6)) + key + tags + struct.pack("<d", draw.randrange(100))
        found.append(b"\0\0\0\0\1" + event)
    return found


def test_avro_from_kafka(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """Batch by batch, over a restart from the checkpoint; behind headers of five bytes, as of a schema registry."""
    pyslash.enable(spark)
    value = from_avro(F.expr("substring(value, 6)"), EVENT).alias("event")
    rows = (
        source(spark, kafka, "avro")
        .select(value)
        .select("event.ts", "event.k", "event.v")
        .withWatermark("ts", "10 seconds")
        .groupBy(F.window("ts", "10 seconds"), "k")
        .agg(F.count("*").alias("n"), F.sum("v").alias("s"))
    )
    assert "native code parses from_avro" in pyslash.explain(rows)
    plain, native = Run(rows, tmp_path / "plain", "off"), Run(rows, tmp_path / "native", "require")
    try:
        for part in range(2):
            produce(spark, kafka, "avro", events(part, 4000))
            plain.go_on()
            native.go_on()
    finally:
        spark.conf.unset("spark.slash.mode")
        pyslash.disable()
    native.check(plain, records=8000)
