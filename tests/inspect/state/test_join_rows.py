"""The rows that a join keeps, as a table, against those that Spark's own reader of state finds in plain Spark's."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import pyslash
from pyslash import cli
from pyslash.errors import CorruptBlockError, InvalidInputError, SlashError
from pyslash.inspect.state import unsafe_rows
from pyslash.inspect.state.source import StateSource
from pyslash.state.savepoint import save
from pyslash.state.stored import StoredState
from tests.streaming.test_joins import JOINS, made, run, sides

ADDED = ["_slash_expires", "_slash_epoch"]
OF_SPARK, OURS = "checkpoint-off", "checkpoint-require"
TYPES = {
    "flag": "v > 9",
    "tiny": "cast(-v as tinyint)",
    "short": "cast(-v * 1000 as smallint)",
    "real": "cast(v as float) / -3",
    "double": "if(v > 15, double('NaN'), v * 1e300)",
    "low": "cast(-v as decimal(18, 2))",
    "high": "cast(-v as decimal(38, 4)) * 1000000000000000000",
    "bytes": "encode(name, 'utf-8')",
    "no_text": "cast(unhex('61FF62') as string)",
    "day": "cast(ts as date)",
    "clock": "cast(ts as timestamp_ntz)",
    "span": "make_dt_interval(0, 0, -v, 1.5)",
    "nothing": "null",
    "flags": "array(v > 9, null, true)",
    "tinies": "sequence(cast(0 as tinyint), cast(v as tinyint))",
    "names": "if(v % 2 = 0, array(name, null, 'ö', ''), array())",
    "highs": "array(cast(v as decimal(38, 4)), null, cast(-v as decimal(38, 4)))",
    "shape": "named_struct('a', v, 'b', if(v % 3 = 0, null, named_struct('c', name, 'd', array(v))))",
    "shapes": "array(named_struct('a', name), null)",
    "pairs": "map(coalesce(name, '-'), array(v, null), 'x', null)",
    "of_map": "transform(sequence(1, v % 3 + 1), i -> map(i, name))",
}


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    pyslash.register_state(spark)


def ours(spark: SparkSession, checkpoint: Path, side: str, **options: object) -> DataFrame:
    named = {"joinSide": side, **{name: str(value) for name, value in options.items()}}
    return spark.read.format("slash-state").options(**named).load(str(checkpoint))


def of_spark(spark: SparkSession, checkpoint: Path, side: str, epoch: int) -> DataFrame:
    reader = spark.read.format("statestore").option("joinSide", side).option("batchId", epoch)
    return reader.load(str(checkpoint)).select("value.*")


def in_words(rows: list[Row]) -> list[str]:
    return sorted(repr(tuple(row)) for row in rows)


@pytest.mark.parametrize("name", ["inner within", "full_outer within", "full_outer of a window"])
def test_each_side_has_the_rows_of_sparks_store_as_of_each_micro_batch(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """What the watermark evicts is gone, in Spark's own batch; what has no time stays."""
    made(spark, tmp_path)
    for mode in ("off", "require"):
        run(spark, tmp_path, JOINS[name], mode)
    sizes = set()
    epochs = StoredState.at(str(tmp_path / OURS)).epochs()
    for epoch in epochs:
        for side in ("left", "right"):
            expected = in_words(of_spark(spark, tmp_path / OF_SPARK, side, epoch).collect())
            found = ours(spark, tmp_path / OURS, side, epoch=epoch, partitions=1 + epoch).drop(*ADDED)
            assert in_words(found.collect()) == expected
            sizes.add(len(expected))
    assert len(epochs) > 4
    assert len(sizes) > 4
    columns = ours(spark, tmp_path / OURS, "right").columns
    assert columns == [*of_spark(spark, tmp_path / OF_SPARK, "right", 1).columns, *ADDED]


def test_rows_say_when_they_came_and_which_watermark_evicts_them(spark: SparkSession, tmp_path: Path) -> None:
    made(spark, tmp_path, batches=3)
    run(spark, tmp_path, JOINS["inner within"], "require")
    held: list[set[tuple[object, ...]]] = []
    for epoch in StoredState.at(str(tmp_path / OURS)).epochs():
        rows = ours(spark, tmp_path / OURS, "left", epoch=epoch).collect()
        held.append({(row.ts, row.k, row.v, row.name) for row in rows})
        came = {(row.ts, row.k, row.v, row.name) for row in rows if row._slash_epoch == epoch}
        assert came >= held[-1] - set().union(*held[:-1])
    # A left row may join right rows of up to 13 seconds later.
    timed = [row for row in rows if row.ts is not None]
    assert timed
    assert {row._slash_expires is None for row in rows if row.ts is None} <= {True}
    assert {round((row._slash_expires - row.ts).total_seconds()) for row in timed} == {13}


def test_any_type_is_read_as_spark_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    """More than 64 columns, too: their bits fill more than a word."""
    made(spark, tmp_path, batches=2)

    def join(left: DataFrame, right: DataFrame) -> DataFrame:
        made = [F.expr(sql).alias(name) for name, sql in TYPES.items()]
        more = [F.expr(f"if(v % {at + 2} = 0, null, v + {at})").alias(f"more{at}") for at in range(60)]
        left, right = sides(left.select("*", *made, *more), right)
        return left.join(right, F.expr("k = r_k AND ts = r_ts"))

    for mode in ("off", "require"):
        run(spark, tmp_path, join, mode)
    expected, found = of_spark(spark, tmp_path / OF_SPARK, "left", 1), ours(spark, tmp_path / OURS, "left", epoch=1)
    kinds = {field.name: field.dataType.simpleString() for field in expected.schema}
    assert {field.name: field.dataType.simpleString() for field in found.drop(*ADDED).schema} == kinds
    assert {*TYPES} < {*kinds}
    rows = in_words(expected.collect())
    assert len(rows) > 20
    assert in_words(found.drop(*ADDED).collect()) == rows


def test_the_command_prints_a_side_and_writes_it_as_parquet(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(spark, tmp_path, batches=2)
    run(spark, tmp_path, JOINS["inner within"], "require")
    save(str(tmp_path / OURS), "now")
    expected = in_words(ours(spark, tmp_path / OURS, "right", savepoint="now").collect())
    command = ["state", "dump", str(tmp_path / OURS), "--side", "right"]
    assert cli.main(command) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["r_ts", "r_k", "r_v", "r_name", *ADDED]
    assert len(lines) == len(expected)
    out = tmp_path / "side.parquet"
    assert cli.main([*command, "--format", "parquet", "--out", str(out)]) == 0
    assert in_words(spark.read.parquet(str(out)).collect()) == expected
    assert pq.read_table(out).num_rows == len(expected)


def test_what_is_missing_is_said(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(spark, tmp_path, batches=1)
    run(spark, tmp_path, JOINS["inner within"], "require")
    path = str(tmp_path / OURS)
    for options in ({}, {"joinSide": "up"}):
        with pytest.raises(InvalidInputError, match=r"the state of a join is rows of two sides: choose one"):
            StateSource({"path": path, **options}).schema()
    assert cli.main(["state", "dump", path]) == 2
    assert "--side left or --side right" in capsys.readouterr().err
    assert cli.main(["state", "dump", path, "--side", "left", "--key", "a"]) == 2
    assert "have no window and no keys" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [T.YearMonthIntervalType(), T.CalendarIntervalType()])
def test_intervals_of_months_are_refused(kind: T.DataType) -> None:
    """`interval` is Spark's name of those of months, days and microseconds, and begins those of the others."""
    fields = T.StructType([T.StructField("y", T.ArrayType(kind))])
    with pytest.raises(InvalidInputError, match=rf"the column y has the type {kind.simpleString()}, of which"):
        unsafe_rows.arrow_schema(fields)


def test_columns_of_one_name_have_numbers() -> None:
    fields = [T.StructField(name, T.LongType()) for name in ("a", "a_2", "a", "b", "a")]
    assert unsafe_rows.arrow_schema(T.StructType(fields)).names == ["a", "a_2", "a_3", "b", "a_4"]


def test_a_row_whose_fields_lead_astray_is_an_error_or_other_values(spark: SparkSession) -> None:
    """Whoever can write a checkpoint can give a segment any bytes: what is read from them is valid, or refused."""
    of_type = {name: sql for name, sql in TYPES.items() if name not in ("day", "clock")}
    rows = spark.createDataFrame([(value, name) for value in range(20) for name in ("a", None, "longer than it")])
    rows = rows.toDF("v", "name").selectExpr(*(f"{sql} AS {name}" for name, sql in of_type.items()))
    jvm = rows._jdf.queryExecution().toRdd().collect()
    kept = [bytes(row.getBytes()) for row in jvm]
    ends = np.cumsum([0, *map(len, kept)])
    draw, refused, read = random.Random(5), 0, 0
    for _ in range(1500):
        data = bytearray(b"".join(kept))
        for _ in range(draw.choice((1, 3, 40))):
            at = draw.randrange(len(data) // 8) * 8 + draw.choice((0, 4, 7))
            data[at] = draw.choice((0, 1, 0x10, 0x7F, 0xFF))
        try:
            found = unsafe_rows.columns(bytes(data), ends[:-1], np.diff(ends), rows.schema)
        except CorruptBlockError:
            refused += 1
            continue
        read += 1
        pa.record_batch(found, unsafe_rows.arrow_schema(rows.schema)).validate()
    assert refused > 100
    assert read > 100
    with pytest.raises(SlashError):
        unsafe_rows.columns(b"".join(kept)[:80], ends[:1], np.array([80]), rows.schema)
