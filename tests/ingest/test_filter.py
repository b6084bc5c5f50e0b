"""Filters over Arrow batches against SQL's logic of three values, a row at a time."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import given

from pyslash.ingest.filter import Filter, columns_of
from tests.support.filters import FILTERS, ROWS, Rows, batch_of

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def value_of(text: list[Any], row: dict[str, int | None]) -> Any:
    """SQL's value; None is null."""
    kind, *operands = text
    if kind == "column":
        return row[operands[0]]
    if kind == "literal":
        return operands[1]
    values = [value_of(operand, row) for operand in operands]
    if kind == "null":
        return values[0] is None
    if kind == "and":
        return False if False in values else None if None in values else True
    if kind == "or":
        return True if True in values else None if None in values else False
    if None in values:
        return None
    if kind == "not":
        return not values[0]
    return values[0] in values[1:] if kind == "in" else COMPARISONS[kind](*values)


@given(rows=ROWS, filters=FILTERS)
def test_the_rows_that_are_true_stay(rows: Rows, filters: list[Any]) -> None:
    batch = batch_of(rows)
    expected = [row for row in batch.to_pylist() if all(value_of(text, row) is True for text in filters)]
    assert Filter(filters).apply(batch).to_pylist() == expected


def test_a_null_is_neither_in_a_list_nor_out_of_it() -> None:
    batch = pa.record_batch({"a": pa.array([1, 2, None], pa.int64())})
    one = ["in", ["column", "a", "bigint"], ["literal", "bigint", 1]]
    assert Filter([one]).apply(batch).to_pydict() == {"a": [1]}
    assert Filter([["not", one]]).apply(batch).to_pydict() == {"a": [2]}


def test_a_filter_s_columns_are_told() -> None:
    text = ["and", ["null", ["column", "a", "bigint"]], ["<", ["column", "b", "int"], ["literal", "int", 1]]]
    assert list(columns_of([text])) == [("a", "bigint"), ("b", "int")]
