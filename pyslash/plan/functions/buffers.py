"""Functions without a native form: Spark's own code turns the rows of a task into buffers, and buffers into results.

Native code keeps the buffers, as a list for each group (docs/design/031).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from pyslash.plan.catalyst import JavaObject, name_of
from pyslash.plan.functions.aggregate import FOLDS, Aggregate

# Of others the result depends on the order of rows, or, as of sketches, on which rows are merged first.
_MERGE_ANYHOW = frozenset({"BitmapConstructAgg", "BitmapOrAgg", "CollectSet", "HyperLogLogPlusPlus", "Percentile"})
# From rows in another order these make the same, but for what is approximate in a sketch. Those of users may not.
_IN_ANY_ORDER = re.compile(
    "(Approx|Bitmap|Hll|HyperLogLog|Kll|Percentile|Theta|Tuple).*|Average|CollectSet|HistogramNumeric|Mode|Sum"
)


def read(function: JavaObject, sql: str) -> Aggregate:
    """The native aggregate that keeps buffers of the function."""
    name = name_of(function)
    goes_by_order = _IN_ANY_ORDER.fullmatch(name) is None
    return Aggregate("collect", False, sql, merges_anyhow=name in _MERGE_ANYHOW, goes_by_order=goes_by_order)


def folding(functions: Iterable[Aggregate]) -> list[Aggregate]:
    """The same functions, over groups that no watermark ends."""
    return [replace(one, parameter=FOLDS) if one.is_buffer else one for one in functions]
