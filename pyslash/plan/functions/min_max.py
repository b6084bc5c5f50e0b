"""`min` and `max`, of every type that has an order; Spark makes `bool_and` and `bool_or` of them."""

from __future__ import annotations

from pyslash.plan.functions.aggregate import Aggregate, Call


def minimum(call: Call) -> Aggregate:
    """`min`, `bool_and`, `every`."""
    return Aggregate("min", False, call.sql)


def maximum(call: Call) -> Aggregate:
    """`max`, `bool_or`, `some`, `any`."""
    return Aggregate("max", False, call.sql)
