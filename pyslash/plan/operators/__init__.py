"""Spark's stateful operators that pyslash executes: found in a physical plan, and cut out of each micro-batch's."""

from pyslash.plan.operators.base import OperatorCut, StatefulOperator
from pyslash.plan.operators.match import cut_of, match, started
from pyslash.plan.operators.window_aggregate import WindowAggregate

__all__ = ["OperatorCut", "StatefulOperator", "WindowAggregate", "cut_of", "match", "started"]
