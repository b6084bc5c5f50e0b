"""`avg` and `try_avg`. Spark rewrites `regr_avgx` and `regr_avgy` as `avg`."""

from __future__ import annotations

from pyslash.plan.functions.aggregate import Aggregate, Call


def read(call: Call) -> Aggregate:
    """Only an average of decimals can overflow; it is null then, but under ANSI."""
    call.expect_numbers()
    return Aggregate("avg", call.eval_mode == "ANSI", call.sql)
