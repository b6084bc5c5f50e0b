"""What Spark makes of a value that a processor puts into its state: it stores rows of the schema that was declared.

A field of another Python type than the schema's becomes null there, or is cast; so it is here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import types
from pyspark.sql.streaming import stateful_processor_api_client as spark_client
from pyspark.sql.types import DataType, Row, StructField, StructType

from pyslash.errors import StateValueError

Values = tuple[Any, ...]
_BITS = {
    types.ByteType: 8,
    types.ShortType: 16,
    types.IntegerType: 32,
    types.LongType: 64,
    types.DateType: 32,
    types.TimestampType: 64,
    types.TimestampNTZType: 64,
}
# Python's types whose values are kept as they are, if they are not too large.
_USUAL = {
    types.ByteType: int,
    types.ShortType: int,
    types.IntegerType: int,
    types.LongType: int,
    types.StringType: str,
    types.BooleanType: bool,
    types.BinaryType: bytes,
    types.DoubleType: float,
}
_EXACT = (*_BITS, types.BooleanType, types.StringType, types.BinaryType)
_FLOATING = (types.FloatType, types.DoubleType)


def is_kept(kind: DataType, *, as_key: bool = False) -> bool:
    """Whether values of this type are kept; as keys, whether equal ones have equal bytes."""
    if isinstance(kind, types.StringType) and kind.collation != "UTF8_BINARY":
        return False
    return type(kind) in _EXACT or (not as_key and type(kind) in _FLOATING)


class RowForm:
    """Rows of a schema as they are kept: a tuple of Python's plain values."""

    def __init__(self, schema: StructType) -> None:
        """`schema`: all of its types are kept (`is_kept`)."""
        spark_client._load_numpy()  # without which NumPy's numbers are not taken for numbers
        self._schema = schema
        self._casts = [_cast(field.dataType) for field in schema.fields]
        self._usual = tuple(_USUAL.get(type(field.dataType)) for field in schema.fields)
        self._ranges = [(at, 1 << (bits - 1)) for at, bits in enumerate(map(_bits, schema.fields)) if bits]
        self._is_plain = not schema.needConversion() or not any(f.dataType.needConversion() for f in schema.fields)

    def kept(self, row: Any, doing: str) -> Values:
        """The values of a row that a processor gives.

        Raises:
            PySparkRuntimeError: as Spark's: it has too many values, or too few. `doing` is what fails.
            StateValueError: Spark casts a value to a string in a way that is not known.
        """
        if isinstance(row, tuple) and tuple(map(type, row)) == self._usual and self._are_in_range(row):
            return tuple(row)
        given = tuple(map(spark_client._normalize_state_value, row))
        values: Values = given if self._is_plain else self._schema.toInternal(given)
        if len(given) != len(self._casts):
            raise PySparkRuntimeError(
                f"{doing}: Input row doesn't have expected number of values required by the schema. "
                f"{len(self._casts)} fields are required while {len(given)} values are provided."
            )
        return tuple(cast(value) for cast, value in zip(self._casts, values, strict=True))

    def _are_in_range(self, row: Values) -> bool:
        return all(-half <= row[at] < half for at, half in self._ranges)

    def given(self, values: Values) -> Values:
        """The row as a processor gets it."""
        return values if self._is_plain else tuple(self._schema.fromInternal(values))

    def row(self, values: Values) -> Row:
        """The same with the names of its fields."""
        return Row(*self._schema.names)(*self.given(values))


def _bits(field: StructField) -> int:
    """Of an integer; 0: it is none that is kept as it is."""
    return _BITS[type(field.dataType)] if _USUAL.get(type(field.dataType)) is int else 0


def _cast(kind: DataType) -> Callable[[Any], Any]:
    if (bits := _BITS.get(type(kind))) is not None:
        return _integer(bits)
    if isinstance(kind, types.StringType):
        return _string
    if isinstance(kind, types.FloatType):
        return lambda value: ctypes.c_float(value).value if isinstance(value, float) else None
    if isinstance(kind, types.DoubleType):
        return lambda value: value if isinstance(value, float) else None
    if isinstance(kind, types.BinaryType):
        return _binary
    return lambda value: value if isinstance(value, bool) else None


def _integer(bits: int) -> Callable[[Any], int | None]:
    half, whole = 1 << (bits - 1), 1 << bits

    def cast(value: Any) -> int | None:
        if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 63) <= value < 1 << 63:
            return None
        return value if -half <= value < half else (value + half) % whole - half

    return cast


def _string(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    raise StateValueError(
        f"a processor puts a {type(value).__name__}, {value!r}, into a field of state that is a string, and pyslash "
        "does not cast it as Spark does. Give a str, or set spark.slash.mode=off and a new checkpointLocation"
    )


def _binary(value: Any) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    return bytes(value) if isinstance(value, bytes | bytearray) else None


def unsafe_order(schema: StructType) -> Callable[[Values], bytes]:
    """The order that Spark gives the keys of a map in: that of the bytes of its rows (`UnsafeRow`)."""
    count = len(schema.fields)
    words = (count + 63) // 64

    def encoded(values: Values) -> bytes:
        row = b"".join(_unsafe(values, words, 8 * (words + count)))
        return len(row).to_bytes(4, "little") + row  # it lies in a row of one column, whose length comes first

    return encoded


def _unsafe(values: Values, words: int, start: int) -> Iterator[bytes]:
    nulls = sum(1 << at for at, value in enumerate(values) if value is None)
    yield nulls.to_bytes(8 * words, "little")
    behind = []
    for value in values:
        if isinstance(value, str | bytes):
            data = value.encode() if isinstance(value, str) else value
            yield len(data).to_bytes(4, "little") + start.to_bytes(4, "little")
            padded = data + b"\0" * (-len(data) % 8)
            start += len(padded)
            behind.append(padded)
        else:
            yield (value or 0).to_bytes(8, "little", signed=True)
    yield from behind
