"""`max` and `min`. Of a type that native code does not know they read the value and its order, as `max_by` does."""

from __future__ import annotations

from collections.abc import Callable

from pyslash.plan.functions.aggregate import Aggregate, Call


def extreme(function: str) -> Callable[[Call], Aggregate]:
    """`max` or `min`, by what `io.pyslash.catalyst.StreamingAggregate` has it read."""

    def read(call: Call) -> Aggregate:
        return Aggregate(function if len(call.types) == 1 else f"{function}_by", False, call.sql)

    return read
