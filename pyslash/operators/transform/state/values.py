"""What Spark makes of a value that a processor puts into its state: it stores rows of the schema that was declared.

A field of another Python type than the schema's becomes null there, or is cast; so it is here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
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
_DIGITS = Context(prec=100, rounding=ROUND_HALF_UP)
# Of Python, which are no lists in the JVM.
_NO_LISTS = (type(None), bool, int, float, str, dict, set, frozenset, Decimal)


def is_kept(kind: DataType, *, as_key: bool = False, nested: bool = True) -> bool:
    """Whether values of this type are kept; as keys, whether equal ones have equal bytes. Without `nested`, no arrays,
    structs and decimals are.
    """
    if isinstance(kind, types.StringType) and kind.collation != "UTF8_BINARY":
        return False
    if isinstance(kind, types.ArrayType):
        return nested and not as_key and is_kept(kind.elementType)
    if isinstance(kind, StructType):
        return nested and not as_key and all(is_kept(field.dataType) for field in kind.fields)
    if isinstance(kind, types.DecimalType):
        return nested and not as_key
    return type(kind) in _EXACT or (not as_key and type(kind) in _FLOATING)


class RowForm:
    """Rows of a schema as they are kept: tuples of Python's plain values. Arrays are lists, structs tuples, decimals
    integers.
    """

    def __init__(self, schema: StructType) -> None:
        """`schema`: all of its types are kept (`is_kept`)."""
        spark_client._load_numpy()  # without which NumPy's numbers are not taken for numbers
        self.schema = schema
        self._casts = [_cast(field.dataType) for field in schema.fields]
        self._usual = tuple(_USUAL.get(type(field.dataType)) for field in schema.fields)
        self._ranges = [(at, 1 << (bits - 1)) for at, bits in enumerate(map(_bits, schema.fields)) if bits]
        self._gives = [_given(field.dataType) for field in schema.fields]
        self._gives_as_kept = all(give is _same for give in self._gives)
        self._is_plain = not schema.needConversion() or not any(f.dataType.needConversion() for f in schema.fields)

    def kept(self, row: Any, doing: str) -> Values:
        """The values of a row that a processor gives.

        Raises:
            PySparkRuntimeError: as Spark's: it, or a struct in it, has too many values, or too few, or a decimal too
                many digits. `doing` is what fails.
            StateValueError: Spark casts a value in a way that is not known.
        """
        if isinstance(row, tuple) and tuple(map(type, row)) == self._usual and self._are_in_range(row):
            return tuple(row)
        given = tuple(map(spark_client._normalize_state_value, row))
        values: Values = given if self._is_plain else self.schema.toInternal(given)
        if len(values) != len(self._casts):  # what is too much for a schema with times, PySpark leaves out
            raise PySparkRuntimeError(
                f"{doing}: Input row doesn't have expected number of values required by the schema. "
                f"{len(self._casts)} fields are required while {len(values)} values are provided."
            )
        try:
            return tuple(cast(value) for cast, value in zip(self._casts, values, strict=True))
        except _UnfitError as error:
            raise PySparkRuntimeError(f"{doing}: {error}") from error

    def _are_in_range(self, row: Values) -> bool:
        for at, half in self._ranges:  # noqa: SIM110 a generator takes three times as long
            if not -half <= row[at] < half:
                return False
        return True

    def given(self, values: Values) -> Values:
        """The row as a processor gets it."""
        if self._gives_as_kept:
            return values
        return tuple(give(value) for give, value in zip(self._gives, values, strict=True))

    def row(self, values: Values) -> Row:
        """The same with the names of its fields."""
        return Row(*self.schema.names)(*self.given(values))


class _UnfitError(Exception):
    """Spark does not take the value."""


def _same(value: Any) -> Any:
    return value


def _given(kind: DataType) -> Callable[[Any], Any]:
    """Makes of a value as it is kept one that a processor gets, which is the processor's own to change."""
    if isinstance(kind, types.ArrayType):
        of_element = _given(kind.elementType)
        return lambda value: None if value is None else [of_element(one) for one in value]
    if isinstance(kind, StructType):
        named, of_fields = Row(*kind.names), [_given(field.dataType) for field in kind.fields]
        return lambda value: (
            None if value is None else named(*(of(one) for of, one in zip(of_fields, value, strict=True)))
        )
    if isinstance(kind, types.DecimalType):
        scale = kind.scale
        return lambda value: None if value is None else Decimal(value).scaleb(-scale, _DIGITS)
    given: Callable[[Any], Any] = kind.fromInternal if kind.needConversion() else _same
    return given


def _bits(field: StructField) -> int:
    """Of an integer; 0: it is none that is kept as it is."""
    return _BITS[type(field.dataType)] if _USUAL.get(type(field.dataType)) is int else 0


def _cast(kind: DataType) -> Callable[[Any], Any]:
    if (bits := _BITS.get(type(kind))) is not None:
        return _integer(bits)
    if isinstance(kind, types.StringType):
        return _string
    if isinstance(kind, types.FloatType):
        return lambda value: ctypes.c_float(value).value if _is(float, value) else None
    if isinstance(kind, types.DoubleType):
        return lambda value: value if _is(float, value) else None
    if isinstance(kind, types.BinaryType):
        return _binary
    if isinstance(kind, types.ArrayType):
        return _list(_cast(kind.elementType))
    if isinstance(kind, StructType):
        return _struct([_cast(field.dataType) for field in kind.fields])
    if isinstance(kind, types.DecimalType):
        return _decimal(kind)
    return lambda value: value if isinstance(value, bool) else None


def _list(of_element: Callable[[Any], Any]) -> Callable[[Any], list[Any] | None]:
    def cast(value: Any) -> list[Any] | None:
        if type(value) in (list, tuple):
            return [of_element(one) for one in value]
        if type(value) in _NO_LISTS:
            return None
        raise _unknown(value, "an array")

    return cast


def _struct(of_fields: list[Callable[[Any], Any]]) -> Callable[[Any], Values | None]:
    def cast(value: Any) -> Values | None:
        if value is None:
            return None
        if len(value) != len(of_fields):  # PySpark has made a tuple of it, whatever it was
            raise _UnfitError(f"a struct of {len(of_fields)} fields gets {len(value)} values")
        return tuple(of(one) for of, one in zip(of_fields, value, strict=True))

    return cast


def _decimal(kind: types.DecimalType) -> Callable[[Any], int | None]:
    limit, scale = 10**kind.precision, kind.scale

    def cast(value: Any) -> int | None:
        if not isinstance(value, Decimal):
            return None
        try:
            unscaled = int(value.scaleb(scale, _DIGITS).quantize(Decimal(1), context=_DIGITS))
        except InvalidOperation as error:
            raise _UnfitError(f"{value} does not fit into {kind.simpleString()}") from error
        if abs(unscaled) >= limit:
            raise _UnfitError(f"{value} does not fit into {kind.simpleString()}")
        return unscaled

    return cast


def _unknown(value: Any, field: str) -> StateValueError:
    return StateValueError(
        f"a processor puts a {type(value).__name__}, {value!r}, into a field of state that is {field}, and pyslash "
        f"does not cast it as Spark does. Give {'a str' if field == 'a string' else 'a list'}, or set "
        "spark.slash.mode=off and a new checkpointLocation"
    )


def _integer(bits: int) -> Callable[[Any], int | None]:
    half, whole = 1 << (bits - 1), 1 << bits

    def cast(value: Any) -> int | None:
        if isinstance(value, bool) or not _is(int, value) or not -(1 << 63) <= value < 1 << 63:
            return None
        number: int = value
        return number if -half <= number < half else (number + half) % whole - half

    return cast


def _is(kind: type, value: Any) -> bool:
    """Whether it is of this class: members of enums are of one of their own, which the JVM does not know."""
    if type(value) is kind:
        return True
    if isinstance(value, kind):
        raise _UnfitError(f"{value!r} is of the class {type(value).__name__}, which the JVM does not know")
    return False


def _string(value: Any) -> str | None:
    if value is None:
        return None
    if _is(str, value):
        return str(value)
    if isinstance(value, bool):
        return str(value).lower()
    if _is(int, value):
        return str(value)
    raise _unknown(value, "a string")


def _binary(value: Any) -> bytes | None:
    if _is(str, value):
        return str(value).encode()
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
