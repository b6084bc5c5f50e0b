"""`sum` and `try_sum`."""

from __future__ import annotations

from pyslash.plan.functions.aggregate import Aggregate, Call


def read(call: Call) -> Aggregate:
    """An overflow is an error, wraps (null for decimals), or is null."""
    call.expect_numbers()
    mode = call.eval_mode
    return Aggregate("sum", mode == "ANSI", call.sql, "try" if mode == "TRY" else "")
