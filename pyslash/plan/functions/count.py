"""`count`; Spark makes `count_if` and `regr_count` of it."""

from __future__ import annotations

from pyslash.plan.functions.aggregate import Aggregate, Call


def read(call: Call) -> Aggregate:
    """Of one column at most: `io.pyslash.StreamingAggregate` makes one of several."""
    return Aggregate("count", False, call.sql)
