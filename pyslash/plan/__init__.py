"""From a streaming DataFrame's Catalyst plan to an `AggregationPlan`, or to the reasons why it is not covered."""

from pyslash.plan.aggregation import AggregationPlan, plan_aggregation
from pyslash.plan.reasons import Uncovered

__all__ = ["AggregationPlan", "Uncovered", "plan_aggregation"]
