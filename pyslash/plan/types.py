"""Spark's data types as the native core names them."""

from __future__ import annotations

import re

from pyslash.plan.reasons import Uncovered

_NATIVE = {
    "boolean": "boolean",
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "float": "float32",
    "double": "float64",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "string": "string",
    "binary": "binary",
}
_DECIMAL = re.compile(r"^decimal\((\d+),(-?\d+)\)$")

NUMERIC = frozenset({"int8", "int16", "int32", "int64", "float32", "float64"})


def native_type(simple_string: str, what: str) -> str:
    """The native name of a Spark type in its `simpleString` spelling.

    >>> native_type("bigint", "key k"), native_type("decimal(10,2)", "key k")
    ('int64', 'decimal(10,2)')

    Raises:
        Uncovered: the type is not one that the native core keeps; `what` says whose type it is.
    """
    if simple_string in _NATIVE:
        return _NATIVE[simple_string]
    match = _DECIMAL.match(simple_string)
    if match and int(match[2]) >= 0:
        return simple_string
    raise Uncovered(f"the type {simple_string} of {what} is not covered yet")


def is_native(simple_string: str) -> bool:
    """Whether the native core has a Spark type, in its `simpleString` spelling.

    >>> is_native("bigint"), is_native("array<bigint>")
    (True, False)
    """
    try:
        native_type(simple_string, "")
    except Uncovered:
        return False
    return True


def is_decimal(native: str) -> bool:
    """Whether a native type name is a decimal."""
    return native.startswith("decimal(")
