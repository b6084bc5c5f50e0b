"""`first`, `last`, `max_by` and `min_by`; Spark makes `any_value` of `first`.

Which row's value it is depends on the order of rows, for `max_by` and `min_by` where several rows have the extreme.
"""

from __future__ import annotations

from collections.abc import Callable

from pyslash.plan.functions.aggregate import Aggregate, Call


def by_position(function: str) -> Callable[[Call], Aggregate]:
    """`first` or `last`; the null of a row counts unless it is told to ignore nulls."""

    def read(call: Call) -> Aggregate:
        return Aggregate(function, False, call.sql, "ignore_nulls" if call.java.ignoreNulls() else "")

    return read


def by_order(function: str) -> Callable[[Call], Aggregate]:
    """`max_by` or `min_by`: a row counts unless what orders it is null."""

    def read(call: Call) -> Aggregate:
        return Aggregate(function, False, call.sql)

    return read
