"""Variances and standard deviations, `skewness`, `kurtosis`, covariances and `corr`.

Spark casts what they read to doubles. Where it would divide by zero it has null, or NaN as long ago:
`spark.sql.legacy.statisticalAggregate`.
"""

from __future__ import annotations

from collections.abc import Callable

from pyslash.plan.functions.aggregate import Aggregate, Call


def moment(function: str) -> Callable[[Call], Aggregate]:
    """The native function of this name."""

    def read(call: Call) -> Aggregate:
        return Aggregate(function, False, call.sql, "" if call.java.nullOnDivideByZero() else "nan")

    return read
