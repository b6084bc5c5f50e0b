"""Spark's aggregation buffers, as its state store keeps them, and the states of groups that they stand for.

    count                 bigint                      rows - nulls
    sum                   the result's type           add, and nulls: whether there was a value
    sum of decimals       the result's type, isEmpty  likewise; null without isEmpty: it has overflowed for good
    avg                   sum, count                  add, nulls
    min, max, bit_*       the value                   the state of their name, nulls
    variance and the like n, avg, m2, m3, m4          moments

A state that several aggregates share is made of all their buffers. Everything here is exact: what is not has no entry
in `fields_of`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyslash._native import Plan
from pyslash.errors import UnsupportedQueryError
from pyslash.plan.change.identity import Output, PlanIdentity

_MOMENTS = {"var_pop": 2, "var_samp": 2, "stddev_pop": 2, "stddev_samp": 2, "skewness": 3, "kurtosis": 4}
_MAY_BE_EMPTY = frozenset({"rows", "nulls", "add", "moments2", "moments3", "moments4"})
# How often a sum has overflowed that Spark has given up: no later value brings it back.
_GIVEN_UP = 1 << 40
_TRIED = "try_sum"  # beside a sum that wraps around: it tells that that has
_DECIMAL = re.compile(r"^decimal\((\d+),(\d+)\)$")

Numbers = np.ndarray[Any, np.dtype[Any]]
Taken = Callable[[Numbers], list[bytes]]
"""The buffers of a state for these groups."""


@dataclass(frozen=True)
class Field:
    """A field of the values in Spark's state store: its name there, and its native type."""

    name: str
    type: str


def fields_of(aggregate: Output) -> list[Field] | None:
    """Spark's buffers of an aggregate, in order; None if they do not tell its state."""
    function, kind = aggregate.function, aggregate.type
    if function == "count":
        return [Field("count", "int64")]
    if function == "sum":
        total = Field("sum", _total(kind))
        tracks = _precision(kind) > 0 or (aggregate.parameter == "try" and not kind.startswith("float"))
        return [total, Field("isEmpty", "boolean")] if tracks else [total]
    if function == "avg":
        return [Field("sum", _total(kind) if _precision(kind) else "float64"), Field("count", "int64")]
    if function in ("min", "max", "bit_and", "bit_or", "bit_xor"):
        return [Field(function, kind)]
    if function in _MOMENTS:
        names = ["n", "avg", "m2", "m3", "m4"][: _MOMENTS[function] + 1]
        return [Field(name, "float64") for name in names]
    return None


class SparkBuffers:
    """The buffers of a number of groups, and the states that they make."""

    def __init__(self, plan: PlanIdentity, columns: Sequence[pa.Array], groups: int) -> None:
        """`columns`: those of `fields_of`, aggregate by aggregate. Of a deduplication there are none."""
        self._plan = plan
        self._native = Plan(plan.text)
        self._groups = groups
        self._by_input: dict[tuple[str, str], list[pa.Array]] = {}
        given = iter(columns)
        counts_rows = None
        for aggregate in plan.aggregates if columns else []:
            found = [next(given) for _ in fields_of(aggregate) or []]
            if aggregate.function == "count" and not aggregate.inputs:
                counts_rows = _longs(found[0])
                continue
            function, of = aggregate.function, aggregate.inputs[0].sql
            known = self._by_input.setdefault((function, of), found)
            if len(known) != len(found):
                self._by_input[function, of], self._by_input[_TRIED, of] = sorted((known, found), key=len)
        self.rows = counts_rows if counts_rows is not None else self._rows()

    def states(self) -> list[Taken]:
        """One for each state of the plan, in order.

        Raises:
            UnsupportedQueryError: Spark keeps two sums where pyslash has one, and they do not agree.
        """
        names = ["", *(column.sql for column in self._plan.inputs)]
        kinds = ["", *(column.type for column in self._plan.inputs)]
        return [
            self._state(index, kind, names[columns[0]] if columns else "", kinds[columns[0]] if columns else "")
            for index, (kind, columns, _) in enumerate(self._native.states)
        ]

    def _state(self, index: int, kind: str, column: str, type_: str) -> Taken:
        if kind == "rows":
            return _fixed([self.rows], kind)
        if kind == "nulls":
            return _fixed([self.rows - self._seen(column)], kind)
        if kind == "add":
            return _fixed(self._sum(column, type_), kind)
        if kind.startswith("moments"):
            found = next(
                buffers
                for (function, of), buffers in self._by_input.items()
                if of == column and function in _MOMENTS and _MOMENTS[function] == int(kind[-1])
            )
            return _fixed([_doubles(one) for one in found], kind)
        if (kind, column) not in self._by_input:  # of a deduplication's first rows, which nobody asks for again
            return lambda at: self._native.nothing_seen(index, len(at))
        values = self._by_input[kind, column][0]
        if type_ in ("string", "binary"):
            return lambda at: _variable(values.take(pa.array(at)))
        (empty,) = self._native.nothing_seen(index, 1)
        return _fixed([_values(values, type_, empty)], kind)

    def _rows(self) -> Numbers:
        """As many as there must have been: more than one are never needed but to tell nulls from values."""
        # The group of all rows exists before it has any.
        is_total = not self._plan.keys and self._plan.window.is_all_time
        rows = np.full(self._groups, 0 if is_total else 1, np.int64)
        for column in {of for _, of in self._by_input}:
            rows = np.maximum(rows, self._counted(column))
        return rows

    def _counted(self, column: str) -> Numbers:
        """Values of a column: as many as Spark has counted; else one, or none."""
        for (function, of), found in self._by_input.items():
            if of != column:
                continue
            if function == "count":
                return _longs(found[0])
            if function == "avg":
                return _longs(found[1])
            if function in _MOMENTS:
                counted: Numbers = _doubles(found[0]).astype(np.int64)
                return counted
        seen = np.zeros(self._groups, np.int64)
        for (function, of), found in self._by_input.items():
            if of == column and function == "sum" and len(found) == 2:
                seen |= _flags(pc.invert(pc.fill_null(found[1], False)))
            elif of == column:
                seen |= _flags(pc.is_valid(found[0]))
        return seen

    def _seen(self, column: str) -> Numbers:
        return np.minimum(self._counted(column), self.rows)

    def _sum(self, column: str, kind: str) -> list[Numbers]:
        own, mean = self._by_input.get(("sum", column)), self._by_input.get(("avg", column))
        tried = self._by_input.get((_TRIED, column), own)
        if kind.startswith("float"):
            return [_doubles((own or mean or [])[0])]
        given_up = np.zeros(self._groups, np.int64)
        if tried is not None and len(tried) == 2:
            given_up = _flags(pc.and_(pc.is_null(tried[0]), pc.invert(pc.fill_null(tried[1], True))))
        elif own is None and mean is not None and _precision(kind):
            given_up = _flags(pc.is_null(mean[0]))
        given_up = given_up * _GIVEN_UP
        values = (own or mean or [])[0]
        if _precision(kind):
            low, high = _halves(values)
            if _precision(kind) > 18:
                whole = np.stack([low, high], axis=1).copy().view("V16").reshape(-1)
                return [whole, given_up]
            return [low, high + (low < 0) + given_up]
        if own is None:
            return [*_parts(_doubles(values))]
        low = _longs(own[0])
        if mean is None:
            return [low, given_up]
        if given_up.any():
            raise UnsupportedQueryError(
                f"the sum of {column} has left its type in {np.count_nonzero(given_up)} groups, where try_sum is null "
                "from then on, and avg is not: pyslash keeps one sum for both. Let plain Spark go on with the query"
            )
        # Its sum has wrapped around as often as the double says that it has.
        return [low, np.rint((_doubles(mean[0]) - low.astype(np.float64)) / 2.0**64).astype(np.int64)]


def _fixed(arrays: Sequence[Numbers], kind: str) -> Taken:
    def taken(at: Numbers) -> list[bytes]:
        return [_written(array[at], kind in _MAY_BE_EMPTY) for array in arrays]

    return taken


def _written(values: Numbers, may_be_empty: bool) -> bytes:
    data = values.tobytes()
    return b"" if may_be_empty and not any(data) else data


def _variable(values: pa.Array) -> list[bytes]:
    """Bits, offsets and bytes, as of a key; no value is an empty one."""
    kind = pa.binary()
    filled = pc.fill_null(values.cast(kind), b"")
    copied = pa.concat_arrays([filled, pa.array([], kind)])
    _, offsets, data = copied.buffers()
    ends = np.frombuffer(offsets, np.int32, len(copied) + 1, copied.offset * 4)
    body = bytes(data)[int(ends[0]) : int(ends[-1])] if data is not None else b""
    bits = np.packbits(pc.is_valid(values).to_numpy(zero_copy_only=False), bitorder="little").tobytes()
    return [bits, (ends - ends[0]).astype(np.int32).tobytes(), body]


def _values(values: pa.Array, kind: str, empty: bytes) -> Numbers:
    """In native bytes; `empty` where there is none."""
    if _precision(kind):
        low, high = _halves(values)
        found = low if _precision(kind) <= 18 else np.stack([low, high], axis=1).copy().view("V16").reshape(-1)
    elif kind in ("timestamp", "timestamp_ntz"):
        found = _longs(values.cast(pa.int64()))
    elif kind == "date":
        found = pc.fill_null(values.cast(pa.int32()), 0).to_numpy(zero_copy_only=False)
    elif kind == "boolean":
        found = pc.fill_null(values, False).to_numpy(zero_copy_only=False).astype(np.int8)
    else:
        found = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    found = found.copy()
    found[pc.is_null(values).to_numpy(zero_copy_only=False)] = np.frombuffer(empty, found.dtype)[0]
    return found


def _halves(values: pa.Array) -> tuple[Numbers, Numbers]:
    """Of unscaled decimals, the lower 64 bits, as signed, and the upper ones; zero where null."""
    copied = pa.concat_arrays([values, pa.array([], values.type)])
    pairs = np.frombuffer(copied.buffers()[1], np.int64, 2 * len(copied), 16 * copied.offset).reshape(-1, 2)
    there = pc.is_valid(values).to_numpy(zero_copy_only=False)
    return np.where(there, pairs[:, 0], 0), np.where(there, pairs[:, 1], 0)


def _parts(sums: Numbers) -> tuple[Numbers, Numbers]:
    """A whole number in a double, as how often it exceeds 2^64 and what is left, as signed."""
    high = np.rint(sums / 2.0**64)
    rest = sums - high * 2.0**64  # exact: both are multiples of the same power of two
    at_bound = rest >= 2.0**63
    return np.where(at_bound, rest - 2.0**64, rest).astype(np.int64), (high + at_bound).astype(np.int64)


def _longs(values: pa.Array) -> Numbers:
    found: Numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _doubles(values: pa.Array) -> Numbers:
    found: Numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False).astype(np.float64)
    return found


def _flags(values: pa.Array) -> Numbers:
    found: Numbers = values.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _precision(kind: str) -> int:
    """Of a decimal; 0: it is none."""
    found = _DECIMAL.match(kind)
    return int(found[1]) if found else 0


def _total(kind: str) -> str:
    """The type of a sum."""
    found = _DECIMAL.match(kind)
    if found:
        return f"decimal({min(38, int(found[1]) + 10)},{found[2]})"
    return "float64" if kind.startswith("float") else "int64"
