"""Rows whose class knows their fields are PySpark's rows to whoever looks at them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.types import Row

from pyslash.operators.transform.row_class import row_class

NAMES = ("key", "count", "index", "asDict", "__len__", "__hidden", "_0", "at0", "a b", "class", "größe", "key", "")

LOOKS: dict[str, Callable[[Any], Any]] = {
    **{f"row.{name}": lambda row, name=name: _comparable(getattr(row, name)) for name in (*NAMES, "other", "__other")},
    **{f"row[{name!r}]": lambda row, name=name: row[name] for name in (*NAMES, "other", 0, -1, 99)},
    "slice": lambda row: row[1:3],
    "in": lambda row: ["key" in row, 0 in row, "other" in row],
    "dict": lambda row: [row.asDict(), row.asDict(recursive=True)],
    "repr": repr,
    "hash": hash,
    "equal": lambda row: [row == tuple(range(len(NAMES))), tuple(row)],
    "fields": lambda row: [row.__fields__, type(row.__fields__)],
    "pickled": lambda row: [pickle.loads(pickle.dumps(row)), type(pickle.loads(pickle.dumps(row)))],
    "copied": lambda row: [repr(copy.copy(row)), type(copy.deepcopy(row))],
    "class": lambda row: [isinstance(row, Row), type(row).__name__, type(row).__module__, type(row).__qualname__],
    "vars": lambda row: _set(row, "key"),
    "called": lambda row: row(1, 2),
    "concatenated": lambda row: [row * 2, type(row * 2)],
}


def _comparable(value: Any) -> Any:
    return value.__name__ if callable(value) else value


def _set(row: Any, name: str) -> None:
    setattr(row, name, 1)


def _seen(look: Callable[[Any], Any], row: Any) -> Any:
    try:
        return look(row)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("look", LOOKS)
def test_a_row_is_as_pysparks(look: str) -> None:
    """Its fields, what hides them, what is no field, and what a processor may do with it."""
    values = range(len(NAMES))
    ours, pysparks = tuple.__new__(row_class(NAMES), values), Row(*NAMES)(*values)
    assert _seen(LOOKS[look], ours) == _seen(LOOKS[look], pysparks)


def test_rows_of_the_same_columns_are_of_one_class() -> None:
    """It is made once, not for each batch."""
    assert row_class(("a", "b")) is row_class(("a", "b"))
    assert row_class(("a", "b")) is not row_class(("b", "a"))
