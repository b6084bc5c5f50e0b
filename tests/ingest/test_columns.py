"""Values that Spark's generated code hands over in columns: the groups that Spark itself makes of the same rows."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.ingest import update_job
from pyslash.spark.jvm_bridge import InputFigures, JvmBridge
from pyslash.spark.session import changed
from tests.support.inside import Inside, a_task
from tests.support.stream import Outcome, Stream, differences, run, seconds

# One of each width, as keys: what is read of each value decides the group.
TYPES: dict[str, tuple[pa.DataType, list[object]]] = {
    "flag": (pa.bool_(), [True, False]),
    "byte": (pa.int8(), [-128, 127]),
    "short": (pa.int16(), [-(2**15), 5]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1]),
    "long": (pa.int64(), [2**63 - 1, -(2**63)]),
    "float": (pa.float32(), [0.1, float("nan")]),
    "double": (pa.float64(), [-0.0, 1e308]),
    "day": (pa.date32(), [-719162, 2932896]),
    "narrow": (pa.decimal128(18, 4), [Decimal("99999999999999.9999"), Decimal("-0.0001")]),
    "wide": (
        pa.decimal128(38, 6),
        [Decimal(f"-{10**38 - 1}E-6"), Decimal(f"{2**64}E-6")],
    ),
    "text": (pa.string(), ["", "a", "\u00e9" * 40]),
    "bytes": (pa.binary(), [b"", b"\0\xff", b"x" * 9]),
}
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), *((name, kind) for name, (kind, _) in TYPES.items())])
ROWS = 6000  # more than a page holds


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[InputFigures]:
    """Of each update job of the test."""
    found: list[InputFigures] = []
    update = JvmBridge.update

    def noted(self: JvmBridge, *args: object) -> object:
        result = update(self, *args)  # type: ignore[arg-type]
        found.append(self.input)
        return result

    monkeypatch.setattr(update_job.JvmBridge, "update", noted)
    return found


def make_stream(spark: SparkSession, folder: Path, rows: int = ROWS) -> Stream:
    """Any value of two or three, a tenth of them null, times too."""
    stream = Stream(spark, folder, SCHEMA, delay_seconds=5, rows_a_task=rows)
    rng = random.Random(7)
    for batch in range(3):
        times = [None if rng.random() < 0.1 else seconds(1000 + 30 * batch + rng.uniform(0, 9)) for _ in range(rows)]
        values = {
            name: [None if rng.random() < 0.1 else rng.choice(some) for _ in range(rows)]
            for name, (_, some) in TYPES.items()
        }
        stream.add(pa.table({"ts": times, **values}, SCHEMA))
    return stream


def check(stream: Stream, query: DataFrame, expected: list[list[object]], keys: int) -> Outcome:
    """The rows of a query on pyslash, whatever their order."""
    found = run(query, stream.folder, ingest="rows")
    flat = [row for batch in expected for row in batch]
    assert len(flat) > 2
    assert list(differences(found.rows, flat, keys)) == []
    return found


@pytest.mark.parametrize("name", TYPES)
def test_a_column_of_each_type(spark: SparkSession, tmp_path: Path, figures: list[InputFigures], name: str) -> None:
    stream = make_stream(spark, tmp_path)

    def query(rows: DataFrame) -> DataFrame:
        ends = (F.min(name), F.max(name)) if name != "bytes" else (F.count(name),)
        return rows.groupBy(F.window("ts", "10 seconds"), name).agg(F.count("*"), *ends)

    check(stream, query(stream.read()), stream.expected_batches(query), 1)
    assert sum(one.in_columns for one in figures) == 3 * ROWS


def test_texts_longer_than_the_page_has_room_for(
    spark: SparkSession, tmp_path: Path, figures: list[InputFigures]
) -> None:
    stream = make_stream(spark, tmp_path, rows=300)

    def query(rows: DataFrame) -> DataFrame:
        # Up to 400,000 bytes; page after page of 8,000 byte texts; and none.
        long = F.expr("repeat(text, if(flag, 8000, if(byte > 0, 5000, 10)))").alias("long")
        return rows.select("ts", long, "bytes").groupBy(F.window("ts", "10 seconds"), "long", "bytes").count()

    check(stream, query(stream.read()), stream.expected_batches(query), 2)
    assert sum(one.in_columns for one in figures) == 3 * 300


def test_rows_that_one_row_becomes_and_rows_of_either_side_of_an_outer_join(
    spark: SparkSession, tmp_path: Path, figures: list[InputFigures]
) -> None:
    stream = make_stream(spark, tmp_path, rows=400)
    names = spark.createDataFrame([(-128, "least"), (127, None)], "byte byte, name string")

    def query(rows: DataFrame) -> DataFrame:
        exploded = rows.select("ts", "byte", F.explode(F.expr("array(long, int, null)")).alias("number"))
        joined = exploded.join(names.hint("merge"), "byte", "left")
        return joined.groupBy(F.window("ts", "10 seconds"), "name", "byte").agg(F.count("*"), F.sum("number"))

    with changed(spark, {"spark.sql.ansi.enabled": "false"}):
        check(stream, query(stream.read()), stream.expected_batches(query), 2)
    assert sum(one.in_columns for one in figures) > 3 * 3 * 300  # those with a time


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.sql.codegen.wholeStage": "false"},
        {"spark.sql.codegen.hugeMethodLimit": "10"},  # the code is found too long to be run
    ],
)
def test_without_generated_code_rows_come_as_rows(
    spark: SparkSession, tmp_path: Path, figures: list[InputFigures], settings: dict[str, str]
) -> None:
    stream = make_stream(spark, tmp_path, rows=200)

    def query(rows: DataFrame) -> DataFrame:
        return rows.groupBy(F.window("ts", "10 seconds"), "text", "wide").agg(F.count("*"), F.max("double"))

    with changed(spark, settings):
        check(stream, query(stream.read()), stream.expected_batches(query), 2)
    assert [one.in_columns for one in figures if one.in_columns] == []


def test_memory_is_freed_once_where_there_is_not_enough(spark: SparkSession) -> None:
    """A task that has no room for a string ends, and with it the page."""
    page, schema = (
        Inside(spark, "ingest.ColumnPage"),
        spark.createDataFrame([], "number long, text string")._jdf.schema(),
    )
    with a_task(spark):
        made = page.call(None, "of", schema)
        text = page.field("text")
        assert text.getLong(made) != 0
        with pytest.raises(Py4JJavaError, match="OutOfMemoryError"):
            page.call(made, "flush", 1 << 60)
        assert text.getLong(made) == 0
        page.call(made, "flush", 100)
        assert text.getLong(made) != 0
