"""The functions, by their names in Catalyst."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyslash.plan.catalyst import JavaObject, name_of
from pyslash.plan.functions import average, buffers, chosen, distinct, extremes, moments
from pyslash.plan.functions import sum as sum_
from pyslash.plan.functions.aggregate import Aggregate, Call, named
from pyslash.plan.reasons import Uncovered
from pyslash.plan.types import native_type

FUNCTIONS: dict[str, Callable[[Call], Aggregate]] = {
    # Of one column at most: `io.pyslash.catalyst.StreamingAggregate` makes one of several. Spark makes count_if of it.
    "Count": named("count"),
    "Sum": sum_.read,
    "Average": average.read,
    "Min": extremes.extreme("min"),  # also of bool_and, every
    "Max": extremes.extreme("max"),  # also of bool_or, some, any
    "VariancePop": moments.moment("var_pop"),
    "VarianceSamp": moments.moment("var_samp"),
    "StddevPop": moments.moment("stddev_pop"),
    "StddevSamp": moments.moment("stddev_samp"),
    "Skewness": moments.moment("skewness"),
    "Kurtosis": moments.moment("kurtosis"),
    "CovPopulation": moments.moment("covar_pop"),
    "CovSample": moments.moment("covar_samp"),
    "Corr": moments.correlation,
    # These have null where they would divide by zero, and never NaN for that.
    "RegrReplacement": moments.regression("regr_sxx"),  # of regr_syy too
    "RegrSXY": moments.regression("regr_sxy"),
    "RegrSlope": moments.regression("regr_slope", "own"),
    "RegrIntercept": moments.regression("regr_intercept", "own"),
    "RegrR2": moments.determination,
    "BitAndAgg": named("bit_and"),
    "BitOrAgg": named("bit_or"),
    "BitXorAgg": named("bit_xor"),
    "First": chosen.by_position("first"),
    "Last": chosen.by_position("last"),
    # A row counts unless what orders it is null. Of rows that tie, their order decides.
    "MaxBy": named("max_by"),
    "MinBy": named("min_by"),
    "HyperLogLogPlusPlus": distinct.read,
}


def aggregate_of(expression: JavaObject, inputs: Sequence[JavaObject]) -> Aggregate:
    """The native aggregate of a Catalyst `AggregateExpression`: of its own, or one that keeps Spark's buffers.

    Args:
        expression: as Spark's optimizer has left it.
        inputs: what it reads of a row, as `io.pyslash.catalyst.StreamingAggregate` tells; nothing: it counts every row.

    Raises:
        Uncovered: the function's modifiers are not covered.
    """
    sql = str(expression.sql())
    function = expression.aggregateFunction()
    if expression.isDistinct():
        raise Uncovered(f"DISTINCT in {sql} is not covered yet")
    if not all(value.deterministic() for value in inputs):
        raise Uncovered(f"{sql} is over an expression that is not deterministic")
    read = FUNCTIONS.get(name_of(function))
    if read is None:
        return buffers.read(function, sql)
    try:
        types = tuple(native_type(str(value.dataType().simpleString()), sql) for value in inputs)
        return read(Call(function, types, sql))
    except Uncovered:
        return buffers.read(function, sql)
