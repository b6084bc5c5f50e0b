"""Which operator of a query keeps state, and whether pyslash executes it."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from pyslash.plan.catalyst import JavaObject, elements, name_of
from pyslash.plan.operators.aggregation import Aggregation
from pyslash.plan.operators.base import OperatorCut
from pyslash.plan.operators.deduplication import Deduplication
from pyslash.plan.operators.join import StreamJoin
from pyslash.plan.operators.sessions import SessionAggregation
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered

_OPERATORS = {operator.node: operator for operator in (Aggregation, Deduplication, SessionAggregation, StreamJoin)}
_NAMES = {
    "StreamingDeduplicateWithinWatermarkExec": "deduplication within the watermark",
    "StreamingGlobalLimitExec": "limits",
    "FlatMapGroupsWithStateExec": "flatMapGroupsWithState",
    "FlatMapGroupsInPandasWithStateExec": "applyInPandasWithState",
    "TransformWithStateExec": "transformWithState",
    "TransformWithStateInPySparkExec": "transformWithState",
}


def match(bridge: JavaObject, df: DataFrame, mode: OutputMode = OutputMode.APPEND) -> Aggregation:
    """The stateful operator of a streaming DataFrame, as Spark would plan it.

    Args:
        bridge: the JVM's `io.pyslash.Bridge`.
        df: what the query writes.
        mode: of the query.

    Raises:
        Uncovered: the query is not one that pyslash takes over; the message is the reason.
    """
    if not df.isStreaming:
        raise Uncovered("it is not a streaming DataFrame")
    analysed = df._jdf.queryExecution().analyzed()
    thin = bridge.thinned(analysed)
    plan = _planned(bridge, df, thin, mode)
    nodes = elements(bridge.statefulOperators(plan))
    if not nodes:
        raise Uncovered("it has no stateful operator: there is no state to keep")
    if len(nodes) > 1:
        names = ", ".join(name_of(node).removesuffix("Exec") for node in nodes)
        raise Uncovered(f"it has {len(nodes)} stateful operators ({names}); one is covered")
    name = name_of(nodes[0])
    operator = _OPERATORS.get(name)
    if operator is None:
        raise Uncovered(f"{_NAMES.get(name, name.removesuffix('Exec'))}: this stateful operator is not covered yet")
    return operator.of(bridge, plan, nodes[0], mode, not thin.equals(analysed))


def cut_of(bridge: JavaObject, operator: Aggregation, plan: JavaObject) -> OperatorCut:
    """The operator in the physical plan that Spark has made for a micro-batch.

    Raises:
        Uncovered: Spark has planned this micro-batch otherwise.
    """
    nodes = elements(bridge.statefulOperators(plan))
    if [name_of(node) for node in nodes] != [operator.node]:
        raise Uncovered(f"this micro-batch is planned with {[name_of(node) for node in nodes]}")
    return operator.cut(bridge, plan, nodes[0])


def started(bridge: JavaObject, df: DataFrame) -> DataFrame:
    """What the query is started with: the frame itself, or the same with few windows a row."""
    session = df.sparkSession
    analysed = df._jdf.queryExecution().analyzed()
    return DataFrame(
        session._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, bridge.thinned(analysed)),
        session,
    )


def _planned(bridge: JavaObject, df: DataFrame, analysed: JavaObject, mode: OutputMode) -> JavaObject:
    modes = df.sparkSession._jvm.org.apache.spark.sql.streaming.OutputMode
    try:
        return bridge.planned(df.sparkSession._jsparkSession, analysed, getattr(modes, mode.capitalize())())
    except PySparkException as error:
        raise Uncovered(f"Spark does not plan it: {str(error).splitlines()[0]}") from error
