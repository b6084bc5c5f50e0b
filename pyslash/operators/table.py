"""The stateful operators that pyslash executes."""

from __future__ import annotations

from pyslash.operators.aggregation import Aggregation
from pyslash.operators.base import RunTools, StatefulOperator
from pyslash.operators.deduplication import Deduplication
from pyslash.operators.join import StreamJoin
from pyslash.operators.session.steps import SessionAggregation
from pyslash.operators.within_watermark.steps import DeduplicationWithinWatermark
from pyslash.plan.operator import OperatorPlan

OPERATORS: tuple[type[StatefulOperator], ...] = (
    Aggregation,
    Deduplication,
    DeduplicationWithinWatermark,
    SessionAggregation,
    StreamJoin,
)

_BY_NODE = {operator.plan_type.node: operator for operator in OPERATORS}


def plan_type_of(node: str) -> type[OperatorPlan] | None:
    """What reads this node of Spark's plan; None: it is not covered."""
    operator = _BY_NODE.get(node)
    return operator.plan_type if operator is not None else None


def operator_of(plan: OperatorPlan, run: RunTools) -> StatefulOperator:
    """The operator of a plan, in a run of its query."""
    return _BY_NODE[plan.node](plan, run)
