"""The stateful operators that pyslash executes."""

from __future__ import annotations

from pyslash.operators.aggregation import Aggregation
from pyslash.operators.base import RunTools, StatefulOperator
from pyslash.operators.deduplication import Deduplication
from pyslash.operators.join import StreamJoin
from pyslash.operators.keyed_aggregation import KeyedAggregationPlan
from pyslash.operators.session.steps import SessionAggregation
from pyslash.operators.transform.steps import ApplyInPandasWithState, TransformWithState
from pyslash.operators.within_watermark.steps import DeduplicationWithinWatermark
from pyslash.plan.operator import OperatorPlan

OPERATORS: tuple[type[StatefulOperator], ...] = (
    Aggregation,
    ApplyInPandasWithState,
    Deduplication,
    DeduplicationWithinWatermark,
    SessionAggregation,
    StreamJoin,
    TransformWithState,
)

_BY_NODE = {operator.plan_type.node: operator for operator in OPERATORS}
_OTHERS: dict[str, list[type[OperatorPlan]]] = {KeyedAggregationPlan.node: [KeyedAggregationPlan]}


def plan_types_of(node: str) -> list[type[OperatorPlan]]:
    """What may read this node of Spark's plan, the first one that can before others; nothing: it is not covered."""
    return [_BY_NODE[node].plan_type, *_OTHERS.get(node, [])] if node in _BY_NODE else []


def operator_of(plan: OperatorPlan, run: RunTools) -> StatefulOperator:
    """The operator of a plan, in a run of its query."""
    return _BY_NODE[plan.node](plan, run)
