"""The functions by Catalyst's names of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyslash.plan.catalyst import JavaObject, name_of
from pyslash.plan.functions import average, bits, chosen, count, min_max, moments
from pyslash.plan.functions import sum as sum_
from pyslash.plan.functions.aggregate import Aggregate, Call
from pyslash.plan.reasons import Uncovered
from pyslash.plan.types import native_type

FUNCTIONS: dict[str, Callable[[Call], Aggregate]] = {
    "Count": count.read,
    "Sum": sum_.read,
    "Average": average.read,
    "Min": min_max.minimum,
    "Max": min_max.maximum,
    "VariancePop": moments.moment("var_pop"),
    "VarianceSamp": moments.moment("var_samp"),
    "StddevPop": moments.moment("stddev_pop"),
    "StddevSamp": moments.moment("stddev_samp"),
    "Skewness": moments.moment("skewness"),
    "Kurtosis": moments.moment("kurtosis"),
    "CovPopulation": moments.moment("covar_pop"),
    "CovSample": moments.moment("covar_samp"),
    "Corr": moments.correlation,
    "RegrReplacement": moments.regression("regr_sxx"),  # of regr_syy too
    "RegrSXY": moments.regression("regr_sxy"),
    "RegrSlope": moments.regression("regr_slope"),
    "RegrIntercept": moments.regression("regr_intercept"),
    "RegrR2": moments.determination,
    "BitAndAgg": bits.bits("bit_and"),
    "BitOrAgg": bits.bits("bit_or"),
    "BitXorAgg": bits.bits("bit_xor"),
    "First": chosen.by_position("first"),
    "Last": chosen.by_position("last"),
    "MaxBy": chosen.by_order("max_by"),
    "MinBy": chosen.by_order("min_by"),
}


def aggregate_of(expression: JavaObject, inputs: Sequence[JavaObject]) -> Aggregate:
    """The native aggregate of a Catalyst `AggregateExpression`.

    Args:
        expression: as Spark's optimizer has left it.
        inputs: what it reads of a row, as `io.pyslash.StreamingAggregate` tells; nothing: it counts every row.

    Raises:
        Uncovered: the function, its types or its modifiers are not covered.
    """
    sql = str(expression.sql())
    function = expression.aggregateFunction()
    read = FUNCTIONS.get(name_of(function))
    if read is None:
        raise Uncovered(f"the aggregate {sql} is not covered yet")
    if expression.isDistinct():
        raise Uncovered(f"DISTINCT in {sql} is not covered yet")
    if not all(value.deterministic() for value in inputs):
        raise Uncovered(f"{sql} is over an expression that is not deterministic")
    types = tuple(native_type(str(value.dataType().simpleString()), sql) for value in inputs)
    return read(Call(function, types, sql))
