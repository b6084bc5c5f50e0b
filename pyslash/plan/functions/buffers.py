"""Functions without a native form: Spark's own code turns the rows of a task into buffers, and buffers into results.

Native code keeps the buffers, as a list for each group (docs/design/031).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyslash.plan.catalyst import JavaObject, name_of
from pyslash.plan.functions.aggregate import FOLDS, Aggregate

# Of others the result depends on the order of rows, or, as of sketches, on which rows are merged first.
_MERGE_ANYHOW = frozenset({"BitmapConstructAgg", "BitmapOrAgg", "CollectSet", "HyperLogLogPlusPlus", "Percentile"})


def read(function: JavaObject, sql: str) -> Aggregate:
    """The native aggregate that keeps buffers of the function."""
    return Aggregate("collect", False, sql, merges_anyhow=name_of(function) in _MERGE_ANYHOW)


def folding(functions: Iterable[Aggregate]) -> list[Aggregate]:
    """The same functions, over groups that no watermark ends."""
    return [replace(one, parameter=FOLDS) if one.is_buffer else one for one in functions]
