"""Variances and standard deviations, `skewness`, `kurtosis`, covariances, `corr` and the regression functions.

Spark casts their inputs to doubles. Where it looks for a divisor of zero it returns null, or NaN with
`spark.sql.legacy.statisticalAggregate`; where a divisor becomes zero by underflow, null, or an error under ANSI.
"""

from __future__ import annotations

from collections.abc import Callable

from pyslash.plan.catalyst import JavaObject, children, items, name_of
from pyslash.plan.functions.aggregate import Aggregate, Call, eval_mode
from pyslash.plan.reasons import Uncovered


def moment(function: str) -> Callable[[Call], Aggregate]:
    """The native function of this name, which is NaN for a divisor of zero where Spark's is."""

    def read(call: Call) -> Aggregate:
        return _native(function, call, *["nan"] * (not call.java.nullOnDivideByZero()))

    return read


def regression(function: str, *words: str) -> Callable[[Call], Aggregate]:
    """The native function of this name, which is null for a divisor of zero, and never NaN for that."""

    def read(call: Call) -> Aggregate:
        return _native(function, call, *words)

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
    return regression("regr_r2")(call)


def _native(function: str, call: Call, *words: str) -> Aggregate:
    # Of these what divides is a product, which may be zero where its factors are not.
    ansi = function in ("skewness", "kurtosis", "corr", "regr_r2") and _raises(call.java.evaluateExpression())
    # Since 4.3 Spark leaves a partial result as it is where the other one has no rows.
    (_, mean, *_) = items(call.java.mergeExpressions())
    release = ["unguarded"] * (name_of(mean) != "If")
    return Aggregate(function, ansi, call.sql, ",".join([*words, *release]))


def _raises(expression: JavaObject) -> bool:
    """Whether a division in it is an error where the divisor is zero."""
    if name_of(expression) == "Divide":
        return eval_mode(expression) == "ANSI"
    return any(_raises(child) for child in children(expression))
