"""Keys as text: what Spark's rows and processors have in their bytes is shown as what it was."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from pyslash.plan.change.identity import OF_A_PROCESSOR, PlanIdentity
from pyslash.plan.spec import AggregateSpec, ColumnSpec, PlanSpec
from pyslash.plan.window import TimeWindow
from pyslash.state.processor_blocks import key_bytes
from pyslash.state.sizes.key_text import KeyText, cut, text_of

KINDS = ["int8", "int64", "int64", "int64", "binary", "binary"]


def of_join(types: str) -> KeyText:
    """Of a join whose keys have these types."""
    spec = PlanSpec(
        window=TimeWindow(1, 1, 0),
        columns=tuple(ColumnSpec(kind, False) for kind in KINDS),
        keys=(5,),
        row_bits=0,
        joins=True,
    )
    layout = f"(a bigint, `x BY (` string) AND (b bigint) BY ({types})"
    return KeyText(PlanIdentity(spec, ("INNER", "expires", "epoch", "evicted", "a = b", layout), "the watermark"))


def test_keys_of_a_join_are_read_out_of_sparks_own_rows(spark: SparkSession) -> None:
    """Spark makes the row, and names its types."""
    row = spark.range(1).selectExpr(
        "id + 7L AS a",
        "'it is <long>' AS b",
        "CAST(-1.25 AS DECIMAL(38, 2)) AS c",
        "CAST(3.5 AS DECIMAL(9, 1)) AS d",
        "CAST(NULL AS STRING) AS e",
        "named_struct('start', TIMESTAMP'2026-01-31 12:00:00Z', 'money', CAST(2 AS DECIMAL(20, 3)), 'n', 1) AS f",
        "true AS g",
        "CAST(-0.5 AS FLOAT) AS h",
        "DATE'2026-01-31' AS i",
    )
    (unsafe,) = row._jdf.queryExecution().toRdd().collect()
    types = ", ".join(field.dataType.simpleString() for field in row.schema)
    text = of_join(types)
    assert text.names == ["a = b"]
    (found,) = text.shown([bytes(unsafe.getBytes())])
    values = ["7", "it is <long>", "-1.25", "3.5", "null", "{2026-01-31 12:00:00+00:00, 2.000, 1}"]
    values += ["true", "-0.5", "2026-01-31"]
    assert found == cut(", ".join(values))
    assert len(", ".join(values)) > 70


@pytest.mark.parametrize(
    ("row", "types"),
    [
        (b"\0" * 8 + b"\x09" + b"\0" * 7, "map<string,int>"),
        (b"\0" * 8, "bigint"),
        (b"", "struct<a:bigint>"),
        (b"\0" * 16, "struct<`odd:<name`:array<int>>"),
    ],
)
def test_what_cannot_be_read_is_shown_as_it_is(row: bytes, types: str) -> None:
    assert of_join(types).shown([row]) == [cut(f"0x{row.hex()}")]


def test_a_length_that_leads_out_of_a_row_shows_what_there_is() -> None:
    row = b"\0" * 8 + (0xFFFFFFFF).to_bytes(4, "little") + (0xFFFFFF00).to_bytes(4, "little")
    assert of_join("string").shown([row]) == [""]


def test_keys_of_a_processor() -> None:
    spec = PlanSpec(
        window=TimeWindow(1, 1, 0),
        columns=(ColumnSpec("binary", False), ColumnSpec("binary", False)),
        keys=(1,),
        aggregates=(AggregateSpec("last", (2,)),),
    )
    text = KeyText(PlanIdentity(spec, ("the state of struct<k:string,n:int>", "x"), OF_A_PROCESSOR))
    assert text.shown([key_bytes(("a", None, 5))]) == ["a, null, 5"]
    assert text.shown([b"\xff\xff"]) == ["0xffff"]
    kinds = "day:date,at:timestamp,raw:binary,is:boolean,k:string"
    timed = KeyText(PlanIdentity(spec, (f"the state of struct<{kinds}>", "x"), OF_A_PROCESSOR))
    key = key_bytes((20454, 1_767_225_600_000_000, b"\0\xff", True, "a"))
    assert timed.shown([key]) == ["2026-01-01, 2026-01-01 00:00:00+00:00, 0x00ff, true, a"]
    assert text.shown([key_bytes(5)]) == ["0x" + key_bytes(5).hex()]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "native", "text"),
    [
        (None, "string", "null"),
        ("ä<b>".encode(), "string", "ä<b>"),
        (b"\xff", "string", "\ufffd"),
        (b"\x01\xff", "binary", "0x01ff"),
        (1, "boolean", "true"),
        (-1, "date", "1969-12-31"),
        (1 << 62, "timestamp", str(1 << 62)),
        (0, "timestamp_ntz", str(datetime(1970, 1, 1))),
        ((-5).to_bytes(16, "little", signed=True), "decimal(38,1)", str(Decimal("-0.5"))),
        ((10**38 - 7).to_bytes(16, "little"), "decimal(38,2)", "9" * 36 + ".93"),
    ],
)
def test_raw_values(value: object, native: str, text: str) -> None:
    assert text_of(value, native) == text


def test_what_turns_a_line_around_or_ends_it_is_escaped() -> None:
    assert cut("a\u202eb\nc\x1b[2J") == "a\\u202eb\\nc\\x1b[2J"
