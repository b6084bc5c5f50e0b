"""The keys and states of a segment as Arrow columns: keys as they are, states as Spark's aggregation buffers.

The inverse of `spark_buffers`, as exact as that.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from pyslash.errors import ArithmeticOverflowError
from pyslash.migrate.spark_buffers import Field, Numbers, fields_of
from pyslash.plan.arrow_types import arrow_type
from pyslash.plan.change.identity import Output, PlanIdentity
from pyslash.state.replan import buffers_of, layout

_FLOATS = ("float32", "float64")


def columns_of(plan: PlanIdentity, data: Any, groups: int) -> list[pa.Array]:
    """Keys, then the buffers of `fields_of`, aggregate by aggregate; of a deduplication keys alone.

    Raises:
        ArithmeticOverflowError: a sum has left its type, and the query's rules make that an error.
    """
    held = buffers_of(memoryview(data), layout(plan))
    columns = []
    for (kind, _), buffers in held.items():
        if kind.startswith("key "):
            columns.append(_key(plan.keys[int(kind.removeprefix("key "))].type, buffers, groups))
    if plan.operator != "deduplication":
        states = _States(held, groups)
        columns += [array for one in plan.aggregates for array in states.buffers(one)]
    return columns


class _States:
    def __init__(self, held: dict[tuple[str, tuple[str, ...]], list[memoryview]], groups: int) -> None:
        self._held = held
        self._groups = groups
        self._rows = self._longs(held["rows", ()][0])

    def buffers(self, one: Output) -> list[pa.Array]:
        fields = fields_of(one) or []
        if one.function == "count" and not one.inputs:
            return [pa.array(self._rows)]
        column, kind = one.inputs[0].name, one.inputs[0].type
        nulls = self._held.get(("nulls", (column,)))
        seen = self._rows - (self._longs(nulls[0]) if nulls is not None else 0)
        if one.function == "count":
            return [pa.array(seen)]
        if one.function in ("sum", "avg"):
            return self._sum(one, fields, kind, seen, self._held["add", (column,)])
        if one.function in ("min", "max", "bit_and", "bit_or", "bit_xor"):
            return [_values(kind, self._held[one.function, (column,)], self._groups, seen > 0)]
        moments = self._held[f"moments{len(fields) - 1}", (column,)]
        return [pa.array(self._doubles(buffer)) for buffer in moments]

    def _sum(self, one: Output, fields: list[Field], kind: str, seen: Numbers, add: list[memoryview]) -> list[pa.Array]:
        empty = seen == 0
        behind = [pa.array(seen)] if one.function == "avg" else [pa.array(empty)] if len(fields) > 1 else []
        if kind in _FLOATS:
            return [pa.array(self._doubles(add[0]), mask=empty & (not behind)), *behind]
        total = fields[0].type
        if total == "float64":
            low, high = self._longs(add[0]), self._longs(add[1])
            return [
                pa.array(
                    [float(lo + (hi << 64)) for lo, hi in zip(low.tolist(), high.tolist(), strict=True)], pa.float64()
                ),
                *behind,
            ]
        if total == "int64":
            low, over = self._longs(add[0]), self._longs(add[1]) != 0
            if one.ansi and over.any():
                raise ArithmeticOverflowError(
                    f"{one.sql} has left the type bigint, and the query ends with that error when the group is emitted"
                )
            # Behind isEmpty, a sum that has overflowed is null; else it wraps around.
            gone = over if behind else empty
            return [pa.array(low, mask=gone), *behind]
        return [self._decimals(add, kind, total), *behind]

    def _decimals(self, add: list[memoryview], values: str, total: str) -> pa.Array:
        """Unscaled sums of such values in their own type; null where they have left it."""
        kind = arrow_type(total)
        # What is zero in all groups is not written, so that its length tells nothing.
        if arrow_type(values).precision > 18:
            pairs = np.frombuffer(add[0], "<u8,<i8").tolist() if len(add[0]) else [(0, 0)] * self._groups
            low, bits = [(hi << 64) + lo for lo, hi in pairs], 128
        else:
            low, bits = self._longs(add[0]).tolist(), 64
        sums = [value + (times << bits) for value, times in zip(low, self._longs(add[1]).tolist(), strict=True)]
        bound = 10**kind.precision
        return _unscaled([value if abs(value) < bound else None for value in sums], kind)

    def _longs(self, buffer: memoryview) -> Numbers:
        return np.frombuffer(buffer, np.int64) if len(buffer) else np.zeros(self._groups, np.int64)

    def _doubles(self, buffer: memoryview) -> Numbers:
        return np.frombuffer(buffer, np.float64) if len(buffer) else np.zeros(self._groups)


def _key(kind: str, buffers: list[memoryview], groups: int) -> pa.Array:
    bits = buffers[0]
    valid = _bits(bits, groups) if len(bits) else np.ones(groups, bool)
    return _values(kind, buffers if kind in ("string", "binary") else buffers[1:], groups, valid)


def _values(kind: str, buffers: list[memoryview], groups: int, valid: Numbers) -> pa.Array:
    """Values of a type; null where they are not valid."""
    type_ = arrow_type(kind)
    bits = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    if kind in ("string", "binary"):
        return pa.Array.from_buffers(type_, groups, [bits, *map(_copied, buffers[1:])])
    if kind == "boolean":
        return pa.array(np.frombuffer(buffers[0], np.int8) != 0, mask=~valid)
    if pa.types.is_decimal(type_) and type_.precision <= 18:
        low = np.frombuffer(buffers[0], np.int64)
        return pa.Array.from_buffers(type_, groups, [bits, pa.py_buffer(np.stack([low, low >> 63], axis=1).tobytes())])
    return pa.Array.from_buffers(type_, groups, [bits, _copied(buffers[0])])


def _copied(buffer: memoryview) -> pa.Buffer:
    """Aligned, and the column's own."""
    return pa.py_buffer(bytes(buffer))


def _bits(buffer: memoryview, groups: int) -> Numbers:
    return np.unpackbits(np.frombuffer(buffer, np.uint8), count=groups, bitorder="little").astype(bool)


def _unscaled(values: list[int | None], kind: pa.Decimal128Type) -> pa.Array:
    return pa.array(
        [
            None if value is None else Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -kind.scale))
            for value in values
        ],
        kind,
    )
