"""Variances and standard deviations, `skewness`, `kurtosis`, covariances, `corr` and the regression functions.

Spark casts their inputs to doubles. Where it would divide by zero it returns null, or NaN with
`spark.sql.legacy.statisticalAggregate`.
"""

from __future__ import annotations

from collections.abc import Callable

from pyslash.plan.functions.aggregate import Aggregate, Call, named
from pyslash.plan.reasons import Uncovered


def moment(function: str) -> Callable[[Call], Aggregate]:
    """The native function of this name."""

    def read(call: Call) -> Aggregate:
        return Aggregate(function, False, call.sql, "" if call.java.nullOnDivideByZero() else "nan")

    return read


def correlation(call: Call) -> Aggregate:
    """`corr`, which is null over a column of one value.

    Raises:
        Uncovered: first releases of Spark 4 divide by zero there, which is an error under ANSI.
    """
    if " OR " not in str(call.java.evaluateExpression()):
        raise Uncovered(f"{call.sql} divides by zero where a column has one value only, in this release of Spark")
    return moment("corr")(call)


def determination(call: Call) -> Aggregate:
    """`regr_r2`.

    Raises:
        Uncovered: first releases of Spark 4 take one column for the other where either has one value only.
    """
    if not str(call.java.evaluateExpression()).startswith("if ((yMk"):
        raise Uncovered(f"{call.sql} confuses its columns in this release of Spark")
    return named("regr_r2")(call)
