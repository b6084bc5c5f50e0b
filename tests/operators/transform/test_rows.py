"""What a processor gives, packed into streams of Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, DoubleType, Row, StructType

from pyslash.operators.transform import rows as made
from pyslash.operators.transform.rows import Given

SCHEMA = StructType().add("number", "long").add("text", "string")


def streams_in(value: bytes) -> Iterator[pa.Table]:
    """Those that lie one after the other."""
    source = pa.BufferReader(value)
    while source.tell() < len(value):
        yield pa.ipc.open_stream(source).read_all()


@pytest.mark.parametrize(("rows", "width", "count"), [(180, 1 << 18, 7), (25_000, 1, 4)])
def test_streams_hold_few_wide_rows_and_many_narrow_ones(rows: int, width: int, count: int) -> None:
    """Else a batch of wide ones would not fit a column of Arrow: Spark has a batch for each key."""
    given, text = Given(SCHEMA), "x" * width
    given.take(Row(number=number, text=text) for number in range(rows))
    batches = [batch for value in given.packed() for batch in streams_in(value)]
    assert [number for batch in batches for number in batch.column("number").to_pylist()] == list(range(rows))
    assert given.rows == rows
    assert len(batches) == count
    assert all(batch.nbytes <= 5 << 20 for batch in batches[1:])


def test_streams_share_a_value_as_far_as_it_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in one value stays in order; others may be read by other tasks."""
    given = Given(SCHEMA)
    given.take(Row(number=number, text="x" * 1000) for number in range(30_000))
    (value,) = given.packed()
    numbers = [number for batch in streams_in(value) for number in batch.column("number").to_pylist()]
    assert numbers == list(range(30_000))
    monkeypatch.setattr(made, "_PACKED_BYTES", 10_000_000)
    assert [len(value) > 10_000_000 for value in given.packed()] == [True, True, False]


def test_what_is_in_a_row_may_change_behind_its_call() -> None:
    """A processor may have one array, of NumPy too, for all keys: Spark converts the rows of a key when it has them."""
    given = Given(StructType().add("numbers", ArrayType(DoubleType())).add("data", "binary"))
    numbers, data = np.zeros(1), bytearray(1)
    for key in (1, 2, 3):
        numbers[0], data[0] = key, key
        given.take([Row(numbers=numbers, data=data)])
    (value,) = given.packed()
    rows = [tuple(row.values()) for batch in streams_in(value) for row in batch.to_pylist()]
    assert rows == [([1.0], b"\1"), ([2.0], b"\2"), ([3.0], b"\3")]


# The clocks of a zone change between the last two times.
ZONES = [None, "UTC", "Europe/Berlin", "+05:30"]
TIMES = [0, -1, 1_700_000_000_123_456, -(10**16), 1_711_846_799_999_999, 1_711_846_800_000_000]
COLUMNS = [
    *(pa.array([*TIMES, *more], pa.int64()).cast(pa.timestamp("us", zone)) for zone in ZONES for more in ([], [None])),
    *(pa.array([1, -1, *more], kind) for kind in (pa.int8(), pa.int64(), pa.float32()) for more in ([], [None])),
    pa.array([(1 << 63) - 1, -(1 << 63)]),
    pa.array([0.1, -0.0, float("inf"), float("nan")]),
    pa.array(["", "\u00e9\U0001f600", None]),
    pa.array([b"", b"\0\xff", None]),
    pa.array([True, False, None]),
    pa.array([None, None], pa.timestamp("us", "UTC")),
    pa.array([Decimal("1.50"), None]),
    pa.array([18_262, None], pa.date32()),
    pa.array([[1, None], None]),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{column.type}, {column.null_count} null")
def test_values_are_arrows_own(column: pa.Array) -> None:
    for part in (column, column.slice(1), column.slice(0, 0)):
        found, expected = made.listed(part), part.to_pylist()
        assert [(type(one), repr(one)) for one in found] == [(type(one), repr(one)) for one in expected]


def test_a_time_that_python_has_not_is_an_error() -> None:
    for zone in ZONES:
        with pytest.raises(OverflowError):
            made.listed(pa.array([0, 1 << 60], pa.int64()).cast(pa.timestamp("us", zone)))


def test_rows_are_given_by_name() -> None:
    """In another order, without one, with one more, as Spark has made them, of a class of Row's."""
    given, spark = Given(SCHEMA), Row("number", "text")
    given.take([Row(text="b", number=2), Row(number=3), Row(number=4, text="d", more=1), spark(5, "e")])
    given.take([Row(number=1, text="a"), Row("text", "number")("f", 6)])
    (value,) = given.packed()
    (table,) = streams_in(value)
    assert table.to_pydict() == {"number": [2, 3, 4, 5, 1, 6], "text": ["b", None, "d", "e", "a", "f"]}
