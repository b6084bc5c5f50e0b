"""The aggregate functions of Spark's that pyslash computes: one file each, and its line in `table`."""

from pyslash.plan.functions.aggregate import Aggregate
from pyslash.plan.functions.table import aggregate_of

__all__ = ["Aggregate", "aggregate_of"]
