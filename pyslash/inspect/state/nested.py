"""Structs, arrays, maps and intervals, which native code has as the bytes of Spark's row with this one field."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import types

from pyslash.errors import InvalidInputError
from pyslash.inspect.state import unsafe_rows
from pyslash.plan.change.identity import PlanIdentity

# Those that give one of their first argument's values.
_CHOOSING = re.compile(r"(first|last|max|min)(_|$)")
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_PLAIN = {
    "BOOLEAN": types.BooleanType(),
    "TINYINT": types.ByteType(),
    "SMALLINT": types.ShortType(),
    "INT": types.IntegerType(),
    "BIGINT": types.LongType(),
    "FLOAT": types.FloatType(),
    "DOUBLE": types.DoubleType(),
    "DATE": types.DateType(),
    "TIMESTAMP": types.TimestampType(),
    "TIMESTAMP_NTZ": types.TimestampNTZType(),
    "INTERVAL DAY TO SECOND": types.DayTimeIntervalType(),
    "STRING": types.StringType(),
    "BINARY": types.BinaryType(),
    "VOID": types.NullType(),
}


class NestedColumns:
    """Those of a plan's keys and aggregates that have such values, if the checkpoint tells their types.

    Fields of structs are called col1, col2 and so on: a checkpoint does not have their names. Values of other types
    stay bytes.
    """

    def __init__(self, plan: PlanIdentity, before: int) -> None:
        """`before`: how many other columns a table has before the keys."""
        places = [*plan.key_places]
        for one in plan.aggregates:
            places.append(one.places[0] if one.places and _CHOOSING.match(one.function) else 0)
        told = {at: plan.types[place] for at, place in enumerate(places, before) if 0 < place < len(plan.types)}
        self._kinds = {at: kind for at, text in told.items() if (kind := _parsed(text)) is not None}

    def fields(self, columns: list[pa.Field]) -> list[pa.Field]:
        """The columns as a table has them."""
        return [
            one.with_type(unsafe_rows.arrow_type(self._kinds[at], one.name)) if at in self._kinds else one
            for at, one in enumerate(columns)
        ]

    def decoded(self, columns: list[pa.Array]) -> list[pa.Array]:
        """Their values.

        Raises:
            CorruptBlockError: bytes are no such row.
        """
        return [_values(one, self._kinds[at]) if at in self._kinds else one for at, one in enumerate(columns)]


def _values(column: pa.Array, kind: types.DataType) -> pa.Array:
    _, places, data = column.buffers()
    number = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    ends = np.frombuffer(places, number)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    there = column.is_valid().to_numpy(zero_copy_only=False)
    rows = types.StructType().add("value", kind)
    (values,) = unsafe_rows.columns(data or b"", ends[:-1], np.diff(ends), rows, there)
    return values


def _parsed(text: str) -> types.DataType | None:
    """A type as `StreamingOperator.typeInBytes` writes it; None: a table has no values of it.

    >>> _parsed("STRUCT<BIGINT, ARRAY<DECIMAL(10,2)>>").simpleString(), _parsed("INTERVAL YEAR TO MONTH")
    ('struct<col1:bigint,col2:array<decimal(10,2)>>', None)
    """
    kind = _kind(text)
    try:
        return None if kind is None or unsafe_rows.arrow_type(kind, "") is None else kind
    except InvalidInputError:
        return None


def _kind(text: str) -> types.DataType | None:
    if decimal := _DECIMAL.fullmatch(text):
        return types.DecimalType(*map(int, decimal.groups()))
    outer, _, inner = text.removesuffix(">").partition("<")
    if not inner:
        return _PLAIN.get(text)
    parts = [_kind(one) for one in _parts(inner)]
    known = [one for one in parts if one is not None]
    if len(known) < len(parts):
        return None
    match outer, known:
        case "STRUCT", _:
            return types.StructType([types.StructField(f"col{at}", one) for at, one in enumerate(known, 1)])
        case "ARRAY", [element]:
            return types.ArrayType(element)
        case "MAP", [key, value]:
            return types.MapType(key, value)
    return None


def _parts(text: str) -> Iterator[str]:
    """What commas separate, outside of brackets.

    >>> [*_parts("MAP<INT, INT>, DECIMAL(3,2), INT")]
    ['MAP<INT, INT>', 'DECIMAL(3,2)', 'INT']
    """
    depth = start = 0
    for at, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            yield text[start:at]
            start = at + 2
    yield text[start:]
