"""The index over a table's keys from Python: what is looked up, and where the findings go."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pyslash import _native
from pyslash.errors import InvalidInputError

PLAN = "pyslash-plan 1\nwindow 1 1 0\ncolumn string 1\ncolumn int64 1\nkey 1\nkey 2\naggregate count - 0\n"


def rows(keys: list[tuple[str | None, int | None]]) -> pa.RecordBatch:
    """Behind an event time that says nothing."""
    times = pa.array([0] * len(keys), pa.timestamp("us", "UTC"))
    names, numbers = ([key[index] for key in keys] for index in (0, 1))
    return pa.record_batch([times, pa.array(names, pa.string()), pa.array(numbers, pa.int64())], ["t", "s", "n"])


def index(keys: list[tuple[str | None, int | None]]) -> _native.KeyIndex:
    """Of rows in two parts."""
    made = _native.KeyIndex(_native.Plan(PLAN))
    made.add(rows(keys[:1]))
    made.add(rows(keys[1:]))
    return made


def test_a_row_is_found_by_all_its_keys() -> None:
    table = index([("a", 1), ("a", 2), ("b", 1)])
    found = np.full(5, 77, np.int32)
    table.find(rows([("b", 1), ("b", 2), (None, 1), ("a", 2), ("a", None)]), found)
    assert found.tolist() == [2, -1, -1, 1, -1]


def test_a_key_that_comes_twice_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="twice"):
        index([("a", 1), ("b", 1), ("a", 1)])


def test_findings_go_where_there_is_room_for_them() -> None:
    table, sought = index([("a", 1)]), rows([("a", 1)])
    with pytest.raises(InvalidInputError, match="room for 2"):
        table.find(sought, np.empty(2, np.int32))
    with pytest.raises(BufferError):
        table.find(sought, bytes(4))


def test_rows_of_other_columns_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="columns"):
        index([("a", 1)]).find(rows([("a", 1)]).select(["t", "s"]), np.empty(1, np.int32))
