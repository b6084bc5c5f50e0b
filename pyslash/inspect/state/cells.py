"""Values of Arrow columns as a table prints them, those that Python cannot hold included."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def cells(column: pa.Array) -> list[Any]:
    r"""The values of a column; `null` for null.

    >>> cells(pa.array([b"a\xff", None]).cast(pa.string(), safe=False))
    ['a�', 'null']
    >>> cells(pa.array([0, 1 << 59], pa.timestamp("us")))
    [datetime.datetime(1970, 1, 1, 0, 0), '576460752303423488']
    """
    try:
        values = column.to_pylist()
    except (OverflowError, ValueError):
        values = [_value(one) for one in column]
    return ["null" if value is None else value for value in values]


def _value(found: pa.Scalar) -> Any:
    """As Python has it: bytes that are no text as Spark shows them, times of other years in their unit since 1970."""
    if not found.is_valid:
        return None
    if isinstance(found, pa.StructScalar):
        return {name: _value(one) for name, one in found.items()}
    if isinstance(found, pa.MapScalar):
        return [tuple(_value(one) for _, one in pair.items()) for pair in found.values]
    if isinstance(found, pa.ListScalar):
        return [_value(one) for one in found.values]
    if isinstance(found, pa.StringScalar):
        return found.as_buffer().to_pybytes().decode(errors="replace")
    try:
        return found.as_py()
    except (OverflowError, ValueError):
        return str(found.value)
