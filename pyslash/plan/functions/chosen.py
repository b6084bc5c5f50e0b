"""`first` and `last`, which depend on the order of rows. Spark rewrites `any_value` as `first`."""

from __future__ import annotations

from collections.abc import Callable

from pyslash.plan.functions.aggregate import Aggregate, Call


def by_position(function: str) -> Callable[[Call], Aggregate]:
    """`first` or `last`; the null of a row counts unless it is told to ignore nulls."""

    def read(call: Call) -> Aggregate:
        parameter = "ignore_nulls" if call.java.ignoreNulls() else ""
        return Aggregate(function, False, call.sql, parameter, goes_by_order=True)

    return read
