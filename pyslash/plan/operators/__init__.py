"""Spark's stateful operators that pyslash executes: found in a plan, and cut out of the plan of each micro-batch."""

from pyslash.plan.operators.aggregation import Aggregation
from pyslash.plan.operators.base import EventTimes, OperatorCut, StatefulOperator
from pyslash.plan.operators.deduplication import Deduplication
from pyslash.plan.operators.join import JoinCut, StreamJoin
from pyslash.plan.operators.match import cut_of, match, started
from pyslash.plan.operators.sessions import SessionAggregation
from pyslash.plan.operators.within_watermark import DeduplicationWithinWatermark

__all__ = [
    "Aggregation",
    "Deduplication",
    "DeduplicationWithinWatermark",
    "EventTimes",
    "JoinCut",
    "OperatorCut",
    "SessionAggregation",
    "StatefulOperator",
    "StreamJoin",
    "cut_of",
    "match",
    "started",
]
