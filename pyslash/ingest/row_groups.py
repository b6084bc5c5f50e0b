"""Which row groups of a Parquet file can hold a row that passes the filters, by their statistics alone.

The outcome of a filter over a row group is the set of values that it may take there, out of SQL's three. A group is
read if every filter may be true. Only integers, dates and times have bounds; anything else may have any value. So may
dates and times before 1900: depending on the rebase mode, they are not what the file says.
"""

from __future__ import annotations

from enum import IntFlag
from math import inf
from typing import Any, NamedTuple

import pyarrow.parquet as pq

# Spark reads older times by the calendar that the file's writer used, which the values do not tell.
YEAR_1900_DAYS = -25567
YEAR_1900_US = YEAR_1900_DAYS * 86_400_000_000
_OLDEST = {"DATE": YEAR_1900_DAYS, "TIMESTAMP": YEAR_1900_US}


class _May(IntFlag):
    BE_TRUE = 1
    BE_FALSE = 2
    BE_NULL = 4


_ANYTHING = _May.BE_TRUE | _May.BE_FALSE | _May.BE_NULL


class _Range(NamedTuple):
    """The values that an operand may have: from `low` to `high`, if any, and null."""

    low: float = -inf
    high: float = inf
    nulls: bool = True
    values: bool = True


def may_hold(group: pq.RowGroupMetaData, filters: list[Any]) -> bool:
    """Whether a row of the group may pass all filters, as `parquet_scan.ParquetScan` has them."""
    if not filters:
        return True
    ranges: dict[str, _Range] = {}
    for index in range(group.num_columns):
        column = group.column(index)
        known = column.path_in_schema in ranges  # a nested column may be spelled as another one
        ranges[column.path_in_schema] = _Range() if known else _range_of(column, group.num_rows)
    return all(_outcome(condition, ranges) & _May.BE_TRUE for condition in filters)


def _range_of(column: pq.ColumnChunkMetaData, rows: int) -> _Range:
    statistics = column.statistics
    if statistics is None:
        return _Range()
    nulls = statistics.null_count if statistics.has_null_count else None
    low, high = (statistics.min_raw, statistics.max_raw) if statistics.has_min_max else (None, None)
    oldest = _OLDEST.get(statistics.logical_type.type, -inf)
    if not (isinstance(low, int) and isinstance(high, int) and low >= oldest):
        low, high = -inf, inf
    return _Range(low, high, nulls != 0, nulls != rows)


def _operand(text: list[Any], ranges: dict[str, _Range]) -> _Range:
    kind, *operands = text
    if kind == "column":
        return ranges.get(operands[0], _Range())
    value = operands[1]  # of a literal, which is never null
    return _Range(value, value, nulls=False) if type(value) is int else _Range(nulls=False)


def _outcome(text: list[Any], ranges: dict[str, _Range]) -> _May:
    kind, *operands = text
    if kind == "not":
        return _negated(_outcome(operands[0], ranges))
    if kind == "and":
        return _both(_outcome(operands[0], ranges), _outcome(operands[1], ranges))
    if kind == "or":
        left, right = (_negated(_outcome(operand, ranges)) for operand in operands)
        return _negated(_both(left, right))
    if kind == "null":
        column = _operand(operands[0], ranges)
        return _some(true=column.nulls, false=column.values, null=False)
    if kind == "in":
        value, *literals = (_operand(operand, ranges) for operand in operands)
        found = _May(0)
        for literal in literals:
            found |= _compared("=", value, literal)
        return found | _May.BE_FALSE  # whatever one literal says, another may say otherwise
    if kind in ("=", "<", "<=", ">", ">="):
        left_range, right_range = (_operand(operand, ranges) for operand in operands)
        return _compared(kind, left_range, right_range)
    return _ANYTHING


def _compared(kind: str, a: _Range, b: _Range) -> _May:
    if kind in (">", ">="):
        return _compared("<" if kind == ">" else "<=", b, a)
    null = a.nulls or b.nulls
    if not (a.values and b.values):
        return _some(true=False, false=False, null=null)
    if kind == "=":
        alike = a.low == a.high == b.low == b.high
        return _some(true=a.low <= b.high and b.low <= a.high, false=not alike, null=null)
    if kind == "<":
        return _some(true=a.low < b.high, false=a.high >= b.low, null=null)
    return _some(true=a.low <= b.high, false=a.high > b.low, null=null)


def _some(true: bool, false: bool, null: bool) -> _May:
    may = _May(0)
    for possible, outcome in ((true, _May.BE_TRUE), (false, _May.BE_FALSE), (null, _May.BE_NULL)):
        if possible:
            may |= outcome
    return may


def _negated(outcome: _May) -> _May:
    return _some(
        true=bool(outcome & _May.BE_FALSE), false=bool(outcome & _May.BE_TRUE), null=bool(outcome & _May.BE_NULL)
    )


def _both(a: _May, b: _May) -> _May:
    """`AND`: false if either is, true if both are, null otherwise."""
    true = bool(a & b & _May.BE_TRUE)
    false = bool((a | b) & _May.BE_FALSE)
    null = bool((a | b) & _May.BE_NULL and a & ~_May.BE_FALSE and b & ~_May.BE_FALSE)
    return _some(true, false, null)
