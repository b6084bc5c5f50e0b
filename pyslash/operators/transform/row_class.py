"""PySpark's `Row`, whose fields are known to its class: a field is then found as fast as one of a named tuple.

A `Row` of PySpark's has the names of its fields in a dictionary of its own, and searches them at each `row.field`.
"""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

from pyspark.sql.types import Row


@cache
def row_class(names: tuple[str, ...]) -> type[Row]:
    """Of rows with these fields, made by `tuple.__new__`. Pickled and copied they are PySpark's own."""
    fields: dict[str, Any] = {}
    for name, value in zip(reversed(names), reversed(_values(len(names))), strict=True):  # the first of a name is it
        if not hasattr(Row, name) and not name.startswith("__"):  # else it is found in `Row`, or nowhere
            fields[name] = value
    return type("Row", (Row,), {**fields, "__fields__": Row(*names), "__module__": Row.__module__})


def _values(count: int) -> list[Any]:
    """What finds the first value of a tuple, the second one, and so on: named tuples have it in C."""
    numbered = namedtuple("numbered", [f"at{at}" for at in range(count)])  # type: ignore[misc]
    fields: tuple[str, ...] = numbered._fields
    return [vars(numbered)[field] for field in fields]
