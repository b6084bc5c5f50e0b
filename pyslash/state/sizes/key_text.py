"""Keys as text, for people: raw values of a segment, a join's rows, a processor's tuples."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.reasons import Uncovered
from pyslash.plan.types import native_type
from pyslash.state.processor_blocks import key_of
from pyslash.state.sizes.segment_columns import raw_type

MOST_CHARACTERS = 100
_SINCE = datetime(1970, 1, 1, tzinfo=UTC)
_WORD = 8
_DIGITS = Context(prec=40)  # of a decimal: 38, at most
_FORMS = {"boolean": "<?", "int8": "<b", "int16": "<h", "int32": "<i", "date": "<i", "float32": "<f", "float64": "<d"}
_STRUCT = re.compile(r"struct<(\w+:[^:<>]+)+>")
_IN_STRUCT = re.compile(r":([^:<>]+?)(?=,\w+:|>$)")  # the types of its fields, as `catalogString` has them
_IN_JOIN = re.compile(r".* BY \((?P<types>.*)\)", re.DOTALL)  # how `StreamingJoin.layout` ends


class KeyText:
    """The keys of one plan."""

    def __init__(self, plan: PlanIdentity) -> None:
        self.names = [key.sql for key in plan.keys]
        self._types = [key.type for key in plan.keys]
        self._packed: Callable[[bytes], list[str]] | None = None
        if plan.spec.joins:
            condition, layout = plan.columns[-2:]
            types = _types_of(layout)
            self.names = [condition]
            self._packed = lambda row: _of_row(row, types)
        elif plan.operator == "transformWithState":
            kinds = _IN_STRUCT.findall(plan.keys[0].sql)
            self._packed = lambda key: _of_processor(key, kinds)

    def shown(self, values: Sequence[Any]) -> list[str]:
        """A text for each of the `names`; what is longer than 100 characters is cut."""
        if self._packed is None:
            return [cut(text_of(value, native)) for value, native in zip(values, self._types, strict=True)]
        (packed,) = values
        return [cut(", ".join(self._packed(packed)))]


def cut(text: str) -> str:
    r"""At most 100 characters, and an ellipsis where there were more. What no page or terminal shows is escaped.

    >>> cut("a\x1b[2J"), len(cut("a" * 101))
    ('a\\x1b[2J', 101)
    """
    return printable(text[:MOST_CHARACTERS]) + ("…" if len(text) > MOST_CHARACTERS else "")


def printable(text: str) -> str:
    r"""What no page or terminal shows is escaped.

    >>> printable("two\nlines")
    'two\\nlines'
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def text_of(value: Any, native: str) -> str:
    """A raw value of a native type: a number or bytes.

    >>> text_of(1_500_000, "timestamp"), text_of(-125, "decimal(5,2)"), text_of(b"a", "string"), text_of(None, "int64")
    ('1970-01-01 00:00:01.500000+00:00', '-1.25', 'a', 'null')
    """
    if value is None:
        return "null"
    if native == "boolean":
        return "true" if value else "false"
    if native == "string":
        return str(value[: 4 * MOST_CHARACTERS + 4].decode(errors="replace"))
    if native == "binary":
        return f"0x{value[:MOST_CHARACTERS].hex()}"
    if native.startswith("decimal("):
        number = int.from_bytes(value, "little", signed=True) if isinstance(value, bytes) else value
        return str(Decimal(number).scaleb(-int(native[:-1].split(",")[1]), _DIGITS))
    try:
        if native == "date":
            return str((_SINCE + timedelta(days=value)).date())
        if native in ("timestamp", "timestamp_ntz"):
            time = _SINCE + timedelta(microseconds=value)
            return str(time if native == "timestamp" else time.replace(tzinfo=None))
    except OverflowError:
        pass  # a year that Python does not know
    return str(value)


def _of_processor(key: bytes, kinds: list[str]) -> list[str]:
    """Of a tuple of values of these types of Spark's, as far as names of columns let them be told."""
    try:
        values = key_of(key)
        if len(values) != len(kinds):
            return ["null" if value is None else str(value) for value in values]
        raw = [value.encode(errors="surrogatepass") if isinstance(value, str) else value for value in values]
        return [text_of(value, native_type(kind, "key")) for value, kind in zip(raw, kinds, strict=True)]
    except (Uncovered, ValueError, EOFError, TypeError):
        return [text_of(key, "binary")]


def _types_of(layout: str) -> list[str]:
    """Of a join's keys, as Spark names them.

    >>> _types_of("(a bigint) AND (b bigint) BY (bigint, decimal(10,2), struct<start:timestamp,end:timestamp>)")
    ['bigint', 'decimal(10,2)', 'struct<start:timestamp,end:timestamp>']
    """
    found = _IN_JOIN.fullmatch(layout)
    return found["types"].split(", ") if found else []


def _of_row(row: bytes, types: Sequence[str]) -> list[str]:
    """The values of an UnsafeRow; all of it as it is if a type has no native form, or it is no such row."""
    try:
        return _values(row, types)
    except (Uncovered, struct.error):
        return [text_of(row, "binary")]


def _values(row: bytes, types: Sequence[str]) -> list[str]:
    words = -(-len(types) // 64)
    nulls = int.from_bytes(row[: _WORD * words], "little")
    places = enumerate(types, words)
    return ["null" if nulls >> at - words & 1 else _value(row, _WORD * at, kind) for at, kind in places]


def _value(row: bytes, at: int, kind: str) -> str:
    if _STRUCT.fullmatch(kind):
        return f"{{{', '.join(_values(_bytes(row, at), _IN_STRUCT.findall(kind)))}}}"
    native = native_type(kind, "key")
    if native in ("string", "binary"):
        return text_of(_bytes(row, at), native)
    if native.startswith("decimal(") and raw_type(native) != pa.int64():
        return text_of(_bytes(row, at)[::-1], native)  # Java has the most significant byte first
    return text_of(struct.unpack_from(_FORMS.get(native, "<q"), row, at)[0], native)


def _bytes(row: bytes, at: int) -> bytes:
    size, offset = struct.unpack_from("<II", row, at)
    return row[offset : offset + size]
