"""Arrow batches of a query's rows, and results as comparable Python values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pyslash import _native
from pyslash.plan import arrow_types
from tests.native.model import Query, Row, key_of


def arrow_type(name: str, large: bool = False) -> pa.DataType:
    """The Arrow type of a plan's type; `large`: with 64-bit offsets where there are any."""
    if large and name in ("string", "binary"):
        return pa.large_string() if name == "string" else pa.large_binary()
    return arrow_types.arrow_type(name)


def to_batch(query: Query, rows: list[Row], large: bool = False) -> pa.RecordBatch:
    """Rows as `Accumulator.add` takes them. Times and dates are plain numbers."""
    names = ["timestamp", *(name for name, _ in query.columns)]
    columns = []
    for i, name in enumerate(names):
        values = [row[i] for row in rows]
        columns.append(_array(values, arrow_type(name, large)))
    return pa.record_batch(columns, names=[f"c{i}" for i in range(len(names))])


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(type_):
        return pa.array(values, pa.int32() if pa.types.is_date32(type_) else pa.int64()).cast(type_)
    return pa.array(values, type_)


def to_values(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows of a result: times and dates as numbers, floats as `key_of` has them."""
    columns = []
    for column in table.columns:
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
        columns.append([key_of(value) for value in column.to_pylist()])
    return list(zip(*columns, strict=True))


def read_all(merger: _native.Merger, plan: _native.Plan, max_rows: int = 65536) -> pa.Table:
    """Everything that a merger has, as one validated table."""
    batches = []
    while (rows := merger.next(max_rows)) is not None:
        batch = pa.record_batch(rows)
        assert 0 < batch.num_rows <= max_rows
        batch.validate(full=True)
        batches.append(batch)
    return pa.Table.from_batches(batches, schema=pa.schema(plan.schema))
