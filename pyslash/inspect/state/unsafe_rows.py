"""Spark's own rows (`UnsafeRow`, whose bytes the state of a join has) as Arrow columns, all rows of a column at once.

A row is a bit a field that says whether it is null, in whole words, and a word a field: its value, or where in the row
the value lies (above) and how many bytes it has (below). An array is the number of its elements, their bits, and the
elements; a map the size of an array of its keys, that array, and one of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types

from pyslash.errors import CorruptBlockError, InvalidInputError

_WORD = 8
_DIGITS_OF_LONG = 18
_BYTES_OF_DECIMAL = 16
_FIXED: dict[str, tuple[pa.DataType, type[np.generic]]] = {
    "boolean": (pa.bool_(), np.int8),
    "byte": (pa.int8(), np.int8),
    "short": (pa.int16(), np.int16),
    "integer": (pa.int32(), np.int32),
    "long": (pa.int64(), np.int64),
    "float": (pa.float32(), np.float32),
    "double": (pa.float64(), np.float64),
    "date": (pa.date32(), np.int32),
    "timestamp": (pa.timestamp("us", "UTC"), np.int64),
    "timestamp_ntz": (pa.timestamp("us"), np.int64),
    "daytimeinterval": (pa.duration("us"), np.int64),
    "time": (pa.time64("ns"), np.int64),
}
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Spans:
    """Where values lie in a buffer, and which of them there are: the others are null."""

    starts: Numbers
    sizes: Numbers
    there: Flags


def columns(
    data: Any, starts: Numbers, sizes: Numbers, schema: types.StructType, there: Flags | None = None
) -> list[pa.Array]:
    """The columns of rows that begin in these places of a buffer, and have so many bytes; where none is `there`, nulls.

    Raises:
        CorruptBlockError: they are no such rows.
    """
    rows = Spans(starts, sizes, np.ones(len(starts), bool) if there is None else there)
    return _Reader(np.frombuffer(data, np.uint8)).fields(schema, rows)


def arrow_schema(schema: types.StructType) -> pa.Schema:
    """Of `columns`. What has the name of another column has a number behind it.

    Raises:
        InvalidInputError: as `arrow_type`.
    """
    names = numbered(schema.names)
    return pa.schema(
        [(name, arrow_type(field.dataType, name)) for name, field in zip(names, schema.fields, strict=True)]
    )


def numbered(names: Sequence[str]) -> list[str]:
    """The names, each that has been there before with a number behind it.

    >>> numbered(["id", "at", "id", "id"])
    ['id', 'at', 'id_2', 'id_3']
    """
    found: list[str] = []
    for name in names:
        others = (f"{name}_{number}" for number in range(2, len(names) + 2))
        found.append(next(one for one in (name, *others) if one not in found))
    return found


def arrow_type(kind: types.DataType, column: str) -> pa.DataType:
    """That of values of a type.

    Raises:
        InvalidInputError: there is none, as for an interval of months; `column` has it.
    """
    if isinstance(kind, types.StructType):
        return pa.struct([(field.name, arrow_type(field.dataType, column)) for field in kind.fields])
    if isinstance(kind, types.ArrayType):
        return pa.list_(pa.field("element", arrow_type(kind.elementType, column)))
    if isinstance(kind, types.MapType):
        return pa.map_(arrow_type(kind.keyType, column), arrow_type(kind.valueType, column))
    if isinstance(kind, types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, types.StringType):
        return pa.string()
    if isinstance(kind, types.BinaryType):
        return pa.binary()
    if isinstance(kind, types.NullType):
        return pa.null()
    if (fixed := _fixed(kind)) is not None:
        return fixed[0]
    raise InvalidInputError(
        f"the column {column} has the type {kind.simpleString()}, of which a table of a join's rows has no values"
    )


def _fixed(kind: types.DataType) -> tuple[pa.DataType, type[np.generic]] | None:
    return _FIXED.get(kind.typeName().partition("(")[0])


class _Reader:
    """Reads the values of a buffer."""

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        self._data = data
        self._words = data[: len(data) // _WORD * _WORD]

    def fields(self, schema: types.StructType, rows: Spans) -> list[pa.Array]:
        """The columns of rows."""
        words = -(-len(schema.fields) // 64)
        _check((rows.starts % _WORD == 0) & (rows.sizes >= _WORD * (words + len(schema.fields))) | ~rows.there)
        columns = []
        for at, field in enumerate(schema.fields):
            nulls = self._numbers(np.int64, rows.starts + at // 64 * _WORD, rows.there)
            there = rows.there & (nulls >> at % 64 & 1 == 0)
            places = rows.starts + _WORD * (words + at)
            columns.append(self._column(field.dataType, places, there, rows.starts, rows.sizes))
        return columns

    def _column(self, kind: types.DataType, places: Numbers, there: Flags, starts: Numbers, sizes: Numbers) -> pa.Array:
        """Values of a type: in their places, or pointed to from there, within what starts then and has that size."""
        if isinstance(kind, types.NullType):
            return pa.nulls(len(places))
        if isinstance(kind, types.DecimalType) and kind.precision <= _DIGITS_OF_LONG:
            low = self._numbers(np.int64, places, there)
            return _array(pa.decimal128(kind.precision, kind.scale), there, np.stack([low, low >> 63], axis=1))
        if (fixed := _fixed(kind)) is not None:
            arrow, number = fixed
            values = self._numbers(number, places, there)
            if arrow == pa.bool_():
                return pa.array(values != 0, mask=~there)
            return _array(arrow, there, values)
        pointers = self._numbers(np.int64, places, there)
        offsets, lengths = pointers >> 32, pointers & 0xFFFFFFFF
        _check((offsets >= 0) & (offsets + lengths <= sizes) | ~there)
        _check(np.array(lengths[there].sum() <= len(self._data)))  # else they lie over each other
        return self._behind(kind)(Spans(starts + offsets, np.where(there, lengths, 0), there))

    def _behind(self, kind: types.DataType) -> Callable[[Spans], pa.Array]:
        """What reads values of a type that has no fixed width."""
        if isinstance(kind, types.StructType):
            return partial(self._structs, kind)
        if isinstance(kind, types.ArrayType):
            return partial(self._lists, kind.elementType)
        if isinstance(kind, types.MapType):
            return partial(self._maps, kind)
        if isinstance(kind, types.DecimalType):
            return partial(self._decimals, kind)
        return partial(self._bytes, pa.string() if isinstance(kind, types.StringType) else pa.binary())

    def _structs(self, kind: types.StructType, spans: Spans) -> pa.Array:
        fields = self.fields(kind, spans)
        arrow = pa.struct([(field.name, one.type) for field, one in zip(kind.fields, fields, strict=True)])
        return pa.Array.from_buffers(arrow, len(spans.starts), [_bits(spans.there)], children=fields)

    def _lists(self, element: types.DataType, spans: Spans) -> pa.Array:
        counts, elements = self._elements(element, spans)
        arrow = pa.list_(pa.field("element", elements.type))
        buffers = [_bits(spans.there), pa.py_buffer(_ends(counts))]
        return pa.Array.from_buffers(arrow, len(spans.starts), buffers, children=[elements])

    def _maps(self, kind: types.MapType, spans: Spans) -> pa.Array:
        of_keys = self._numbers(np.int64, spans.starts, self._checked(spans))
        _check((of_keys >= _WORD) & (of_keys % _WORD == 0) & (of_keys <= spans.sizes - 2 * _WORD) | ~spans.there)
        keys = Spans(spans.starts + _WORD, np.where(spans.there, of_keys, 0), spans.there)
        behind = Spans(keys.starts + keys.sizes, spans.sizes - keys.sizes - _WORD, spans.there)
        counts, of_key = self._elements(kind.keyType, keys)
        other_counts, of_value = self._elements(kind.valueType, behind)
        _check(counts == other_counts)
        _check(np.array(of_key.null_count == 0))  # Arrow ends the process over them
        arrow = pa.map_(of_key.type, of_value.type)
        pairs = pa.StructArray.from_arrays([of_key, of_value], fields=[arrow.key_field, arrow.item_field])
        buffers = [_bits(spans.there), pa.py_buffer(_ends(counts))]
        return pa.Array.from_buffers(arrow, len(spans.starts), buffers, children=[pairs])

    def _elements(self, kind: types.DataType, arrays: Spans) -> tuple[Numbers, pa.Array]:
        """How many elements each array has, and all of them."""
        fixed = _fixed(kind)
        width = 0 if isinstance(kind, types.NullType) else np.dtype(fixed[1]).itemsize if fixed else _WORD
        counts = self._numbers(np.int64, arrays.starts, self._checked(arrays))
        _check((counts >= 0) & (counts <= 8 * arrays.sizes) | ~arrays.there)
        bits = _WORD * (1 + -(-counts // 64))
        _check((bits + counts * width <= arrays.sizes) | ~arrays.there)
        array, at = _repeated(counts)
        starts = arrays.starts[array]
        everywhere = np.ones(len(at), bool)
        nulls = self._numbers(np.int64, starts + _WORD * (1 + at // 64), everywhere)
        places = starts + bits[array] + at * width
        return counts, self._column(kind, places, nulls >> at % 64 & 1 == 0, starts, arrays.sizes[array])

    def _checked(self, spans: Spans) -> Flags:
        """Which are there; each of them begins with a whole word."""
        _check((spans.starts % _WORD == 0) & (spans.sizes >= _WORD) | ~spans.there)
        return spans.there

    def _bytes(self, arrow: pa.DataType, spans: Spans) -> pa.Array:
        ends = _ends(spans.sizes)
        value, at = _repeated(spans.sizes)
        data = self._data[spans.starts[value] + at]
        # Spark's strings are any bytes, and need not be UTF-8.
        return pa.Array.from_buffers(
            arrow, len(spans.starts), [_bits(spans.there), pa.py_buffer(ends), pa.py_buffer(data)]
        )

    def _decimals(self, kind: types.DecimalType, spans: Spans) -> pa.Array:
        """The most significant byte comes first."""
        _check((spans.sizes >= 1) & (spans.sizes <= _BYTES_OF_DECIMAL) | ~spans.there)
        made = np.zeros((len(spans.starts), _BYTES_OF_DECIMAL), np.uint8)
        first = self._numbers(np.int8, spans.starts, spans.there)
        made[first < 0] = 0xFF
        for at in range(_BYTES_OF_DECIMAL):
            has = spans.there & (spans.sizes > at)
            made[has, at] = self._data[(spans.starts + spans.sizes - 1 - at)[has]]
        return _array(pa.decimal128(kind.precision, kind.scale), spans.there, made)

    def _numbers(self, kind: type[np.generic], places: Numbers, there: Flags) -> Any:
        """The numbers in these places; 0 where there is none."""
        made = np.zeros(len(places), kind)
        made[there] = self._words.view(kind)[places[there] // made.itemsize]
        return made


def _check(holds: Flags) -> None:
    if not holds.all():
        raise CorruptBlockError("a row of Spark's has a field that lies outside of it")


def _repeated(counts: Numbers) -> tuple[Numbers, Numbers]:
    """Of as many things as each count says, one behind the other: which count it is of, and its place there."""
    of = np.repeat(np.arange(len(counts)), counts)
    return of, np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)


def _ends(counts: Numbers) -> npt.NDArray[np.int32]:
    """Offsets, as Arrow has them."""
    made = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=made[1:])
    if made[-1] > np.iinfo(np.int32).max:
        raise CorruptBlockError(f"{made[-1]} bytes or elements are too many for the rows of one segment")
    return made.astype(np.int32)


def _bits(there: Flags) -> pa.Buffer:
    return pa.py_buffer(np.packbits(there, bitorder="little").tobytes())


def _array(arrow: pa.DataType, there: Flags, values: npt.NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(arrow, len(there), [_bits(there), pa.py_buffer(np.ascontiguousarray(values))])
