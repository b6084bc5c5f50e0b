"""The aggregate functions of Spark's that pyslash computes: a line each in `table`, and a file for
what has more to tell than its name.
"""

from pyslash.plan.functions.aggregate import Aggregate
from pyslash.plan.functions.buffers import folding
from pyslash.plan.functions.table import aggregate_of

__all__ = ["Aggregate", "aggregate_of", "folding"]
