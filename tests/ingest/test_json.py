"""Records of JSON that native code reads: the same rows as Spark's own from_json gives, whatever the records."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StructField, StructType

from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.session import changed
from tests.support.json_records import SCHEMA, Records
from tests.support.json_schemas import RandomSchema
from tests.support.same_rows import assert_same, assert_same_bytes

SEED = 20260
RECORDS = int(os.environ.get("PYSLASH_JSON_RECORDS", "18000"))  # more for a longer search
SCHEMAS = int(os.environ.get("PYSLASH_JSON_SCHEMAS", "8"))  # the same


class Reading:
    """A from_json of records, by Spark and with native code."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        records: Sequence[bytes | None],
        schema: str | StructType,
        options: dict[str, str],
    ) -> None:
        path = folder / "records.parquet"  # of a local relation the optimizer would read the JSON
        pq.write_table(pa.table({"value": pa.array(records, pa.binary())}), path)
        parsed = F.from_json(F.col("value").cast("string"), schema, options)
        self.by_spark = spark.read.parquet(str(path)).select(parsed.alias("found")).select("found", "found.*")
        bridge = JvmBridge(spark).java
        self._json = bridge.natively(self.by_spark._jdf.queryExecution().executedPlan())
        self.natively = DataFrame(bridge.again(spark._jsparkSession, self._json.plan()), spark)

    def expected(self) -> pa.Table:
        """As Spark reads the records."""
        return self.by_spark.toArrow()

    def found(self) -> pa.Table:
        """As native code does, and Spark where it is left to it."""
        return self.natively.toArrow()

    @property
    def left_to_spark(self) -> int:
        """Records."""
        return int(self._json.leftToSpark())

    @property
    def obstacles(self) -> list[str]:
        """Why Spark reads all of them."""
        return [str(reason) for reason in self._json.obstacles()]


def check(
    spark: SparkSession, folder: Path, records: Sequence[bytes | None], schema: str | StructType, **options: str
) -> Reading:
    """Compare both readings bit by bit."""
    reading = Reading(spark, folder, records, schema, options)
    expected, found = reading.expected(), reading.found()
    assert reading.obstacles == []
    assert_same(found, expected, lambda row: records[row])
    again = Reading(spark, folder, records, schema, options)  # whose records are counted apart
    assert_same_bytes(again.natively, again.by_spark, lambda row: records[row])
    return reading


@pytest.mark.parametrize("zone", ["UTC", "+05:30", "Europe/Berlin"])
def test_random_records(spark: SparkSession, tmp_path: Path, zone: str) -> None:
    """Plain ones, odd ones, damaged ones."""
    records = Records(f"{SEED} {zone}").some(RECORDS // 3)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        reading = check(spark, tmp_path, records, SCHEMA)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert 0.2 < reading.left_to_spark / len(records) < 0.9  # both ways are taken


def test_random_schemas(spark: SparkSession, tmp_path: Path) -> None:
    """Columns that native code does not read, too, and more than a word has bits."""
    refused = 0
    for seed in range(SCHEMAS):
        schema = RandomSchema(f"{SEED} {seed}")
        records = schema.records(100)
        reading = Reading(spark, tmp_path, records, schema.text, {})
        assert_same_bytes(reading.natively, reading.by_spark, lambda row, of=(seed, records): (of[0], of[1][row]))
        refused += bool(reading.obstacles)
    assert 0 < refused < SCHEMAS / 2


def test_plain_records_are_read_natively(spark: SparkSession, tmp_path: Path) -> None:
    """What programs write, of all types: no record of it is left to Spark, but those whose array holds something."""
    records = Records(SEED).plain(1000)
    schema = SCHEMA.replace(", list array<int>", "")
    assert check(spark, tmp_path, records, schema).left_to_spark == 0
    filled = sum(re.search(rb'"list"\s*:\s*\[', record) is not None for record in records)
    assert check(spark, tmp_path, records, SCHEMA).left_to_spark == filled > 0


STRUCTS = (
    "id int, name string, wide decimal(30, 5), "
    "user struct<city: string, id: int, name: string, home: struct<town: string, zip: string, wide: decimal(20, 0)>>, "
    "none struct<text: string>, zip string"
)


def test_structs_have_the_bytes_that_spark_gives_them(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever the order of members, and which of them are null or absent: by its bytes Spark tells a struct apart."""
    draw = random.Random(SEED)

    def an_object(**members: str) -> str:
        chosen = [f'"{name}": {"null" if draw.random() < 0.1 else value}' for name, value in members.items()]
        draw.shuffle(chosen)
        return "{" + ", ".join(member for member in chosen if draw.random() < 0.9) + "}"

    def text() -> str:
        return json.dumps("é" * draw.randrange(12), ensure_ascii=draw.random() < 0.5)

    def record() -> bytes:
        home = an_object(zip=text(), town=text(), wide="null")
        user = an_object(name=text(), home=home, id=str(draw.randrange(9)), city=text(), other="[1]")
        none = draw.choice(["null", "{}", an_object(text=text())])
        return an_object(zip=text(), user=user, none=none, wide="null", id="7", name=text()).encode()

    assert check(spark, tmp_path, [record() for _ in range(1000)], STRUCTS).left_to_spark == 0


def test_corrupt_records(spark: SparkSession, tmp_path: Path) -> None:
    """Their column is Spark's own, also if a record has a member of that name."""
    records = [*Records(SEED).some(200), b'{"number": 1, "bad": "x"}', b'{"bad": "x", "number": 1.5}', None]
    schema = "number int, text string, bad string"
    reading = check(spark, tmp_path, records, schema, columnNameOfCorruptRecord="bad", mode="permissive")
    assert 0 < reading.left_to_spark < len(records)
    check(spark, tmp_path, [b'{"_corrupt_record": "x", "text": "y"}', b"{"], "text string, _corrupt_record string")


def test_a_bad_record_fails_as_spark_has_it_fail(spark: SparkSession, tmp_path: Path) -> None:
    """In FAILFAST mode, by Spark's own error."""
    good = [b'{"number": 7}', b"{}", b'{"number": null}']
    options = {"mode": "FAILFAST"}
    assert check(spark, tmp_path, good, "number int", **options).left_to_spark == 0
    for bad in (b'{"number": "x"}', b'{"number": 7', b"[]"):
        reading = Reading(spark, tmp_path, [*good, bad], "number int", options)
        conditions = set()
        for rows in (reading.by_spark, reading.natively):
            with pytest.raises((PySparkException, Py4JJavaError), match="MALFORMED_RECORD_IN_PARSING") as failure:
                rows.collect()
            conditions.update(re.findall(r"\[(MALFORMED_RECORD\S*)\]", str(failure.value)))
        assert len(conditions) == 1


@pytest.mark.parametrize(
    ("schema", "options", "reason"),
    [
        ("number int", {"timestampFormat": "yyyy"}, "from_json has the option timestampformat"),
        ("number int", {"allowComments": "true"}, "from_json has the option allowcomments"),
        ("array<int>", {}, "from_json gives array<int>, not a struct"),
        ("map<string, int>", {}, "from_json gives map<string,int>, not a struct"),
        ("number int, number string", {}, "from_json has the column number twice"),
        ("number int, deep struct<gap: interval>", {}, "from_json has the column gap of the type interval"),
        ("number int, any variant", {}, "from_json has the column any of the type variant"),
        ("number int, deep struct<any: variant>", {}, "from_json has the column any of the type variant"),
    ],
)
def test_what_only_spark_reads(
    spark: SparkSession, tmp_path: Path, schema: str, options: dict[str, str], reason: str
) -> None:
    """Options and types that change what is read: the plan is Spark's own, and the reason is told."""
    if schema.startswith(("array", "map")):
        path = tmp_path / "records.parquet"
        pq.write_table(pa.table({"value": ["[1]"]}), path)
        plan = spark.read.parquet(str(path)).select(F.from_json("value", schema))._jdf.queryExecution().executedPlan()
        json = JvmBridge(spark).java.natively(plan)
        assert json.plan().equals(plan)
        assert [str(one) for one in json.obstacles()] == [reason]
        return
    reading = Reading(spark, tmp_path, [b'{"number": 1}'], schema, options)
    assert [text.lower() for text in set(reading.obstacles)] == [reason.lower()]


def test_what_spark_refuses_at_its_first_record(spark: SparkSession, tmp_path: Path) -> None:
    """It does so whatever the record is: a mode of sources, a column of corrupt records that is no string."""
    for schema, options, reason, error in (
        ("number int", {"mode": "dropMalformed"}, "from_json has the mode DROPMALFORMED", "PARSE_MODE_UNSUPPORTED"),
        (
            "number int, bad int",
            {"columnNameOfCorruptRecord": "bad"},
            "from_json has the column bad of the type int",
            "INVALID_CORRUPT_RECORD_TYPE",
        ),
    ):
        reading = Reading(spark, tmp_path, [b'{"number": 1}'], schema, options)
        assert set(reading.obstacles) == {reason}
        with pytest.raises((PySparkException, Py4JJavaError), match=error):
            reading.natively.collect()


@pytest.mark.parametrize("depth", [15, 16, 40])
def test_structs_that_are_too_deep(spark: SparkSession, tmp_path: Path, depth: int) -> None:
    """So many, one in the other: Spark reads what is too far down for native code."""
    schema = "number int, a " + "struct<a: " * depth + "int" + ">" * depth
    records = [b'{"number": 1, "a":%s}' % (b'{"a":' * deep + b"null" + b"}" * deep) for deep in range(depth + 1)]
    records.append(b'{"number": 2, "a":%s}' % (b'{"a":' * depth + b"7" + b"}" * depth))
    assert check(spark, tmp_path, records, schema).left_to_spark == max(0, depth - 15 + (depth > 15))


def test_decimals_of_negative_scale(spark: SparkSession, tmp_path: Path) -> None:
    """Native code has none: only null is read."""
    schema = StructType([StructField("price", DecimalType(5, -2)), StructField("wide", DecimalType(30, -2))])
    records = [b'{"price": 1200}', b"{}", b'{"wide": null}', b'{"wide": 1e20, "price": null}']
    with changed(spark, {"spark.sql.legacy.allowNegativeScaleOfDecimal": "true"}):
        assert check(spark, tmp_path, records, schema).left_to_spark == 2


def test_times_as_spark_2_read_them(spark: SparkSession, tmp_path: Path) -> None:
    """The old parser's rules are its own."""
    spark.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    try:
        reading = Reading(spark, tmp_path, [b'{"at": "2020-01-01T00:00:00Z"}'], "at timestamp", {})
    finally:
        spark.conf.unset("spark.sql.legacy.timeParserPolicy")
    assert set(reading.obstacles) == {"times are read as Spark 2 did (spark.sql.legacy.timeParserPolicy)"}


@pytest.mark.nightly
def test_a_million_random_records(spark: SparkSession, tmp_path: Path) -> None:
    """In pieces, each of another seed."""
    left = 0
    for seed in range(10):
        records = Records(seed).some(100_000)
        left += check(spark, tmp_path, records, SCHEMA).left_to_spark
    assert 200_000 < left < 900_000


def test_json_of_each_element_of_an_array(spark: SparkSession, tmp_path: Path) -> None:
    """One element's struct is kept while the next one's is read."""
    path = tmp_path / "records.parquet"
    pq.write_table(pa.table({"events": [['{"n": 3}', '{"n": 7}', '{"n": 5}']]}), path)
    parsed = "from_json(e, 'n int')"
    best = f"""aggregate(events, from_json('{{"n": -1}}', 'n int'), (a, e) -> IF({parsed}.n > a.n, {parsed}, a))"""
    rows = spark.read.parquet(str(path)).selectExpr(f"{best}.n AS n")
    bridge = JvmBridge(spark).java
    plan = bridge.natively(rows._jdf.queryExecution().executedPlan()).plan()
    natively = DataFrame(bridge.again(spark._jsparkSession, plan), spark)
    assert [row.n for row in rows.collect()] == [row.n for row in natively.collect()] == [7]
