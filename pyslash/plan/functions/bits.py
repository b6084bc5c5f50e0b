"""`bit_and`, `bit_or` and `bit_xor`."""

from __future__ import annotations

from collections.abc import Callable

from pyslash.plan.functions.aggregate import Aggregate, Call


def bits(function: str) -> Callable[[Call], Aggregate]:
    """The native function of this name; Spark has integers only."""

    def read(call: Call) -> Aggregate:
        return Aggregate(function, False, call.sql)

    return read
