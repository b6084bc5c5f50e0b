"""Which operators of a query keep state, and whether pyslash executes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from pyslash.plan.catalyst import JavaObject, elements, name_of
from pyslash.plan.operators.aggregation import Aggregation
from pyslash.plan.operators.base import OperatorCut
from pyslash.plan.operators.deduplication import Deduplication
from pyslash.plan.operators.join import StreamJoin
from pyslash.plan.operators.sessions import SessionAggregation
from pyslash.plan.operators.within_watermark import DeduplicationWithinWatermark
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered

_OPERATORS = {
    operator.node: operator
    for operator in (Aggregation, Deduplication, DeduplicationWithinWatermark, SessionAggregation, StreamJoin)
}
_NAMES = {
    "StreamingGlobalLimitExec": "limits",
    "FlatMapGroupsWithStateExec": "flatMapGroupsWithState",
    "FlatMapGroupsInPandasWithStateExec": "applyInPandasWithState",
    "TransformWithStateExec": "transformWithState",
    "TransformWithStateInPySparkExec": "transformWithState",
}


def match(bridge: JavaObject, df: DataFrame, mode: OutputMode = OutputMode.APPEND) -> list[Aggregation]:
    """The stateful operators of a streaming DataFrame, as Spark would plan it, each behind those whose rows it takes.

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
    is_thinned = not thin.equals(analysed)
    plan = _planned(bridge, df, thin, mode)
    nodes = elements(bridge.statefulOperators(plan))
    if not nodes:
        raise Uncovered("it has no stateful operator: there is no state to keep")
    if is_thinned and len(nodes) > 1:
        raise Uncovered("a row has too many windows for a query with several stateful operators")
    operators: list[Aggregation] = []
    first = nodes[0]
    for node in nodes:
        if operators:
            plan = operators[-1].without(bridge, plan, first, df.sparkSession)
            first = elements(bridge.statefulOperators(plan))[0]
        try:
            found = _kind(node).of(bridge, plan, first, mode, is_thinned)
        except Uncovered as reason:
            reason.operator = name_of(node).removesuffix("Exec")
            raise
        operators.append(replace(found, stands_on_others=len(elements(bridge.statefulOperators(node))) > 1))
    return [*_told_of_each_other(operators)]


def _kind(node: JavaObject) -> type[Aggregation]:
    name = name_of(node)
    kind = _OPERATORS.get(name)
    if kind is None:
        raise Uncovered(f"{_NAMES.get(name, name.removesuffix('Exec'))}: this stateful operator is not covered yet")
    return kind


def _told_of_each_other(operators: list[Aggregation]) -> Iterator[Aggregation]:
    """The same; what decides which rows an operator takes is all that decides which ones those below it give, too."""
    below = ""
    for operator in operators:
        fingerprint = (
            hashlib.sha256(f"{below}{operator.fingerprint}".encode()).hexdigest() if below else operator.fingerprint
        )
        yield replace(operator, fingerprint=fingerprint)
        below = f"{fingerprint} {operator.identity} "


def cut_of(bridge: JavaObject, operators: Sequence[Aggregation], plan: JavaObject) -> OperatorCut:
    """The first of these operators, which are all that there are, in the physical plan that Spark has made.

    Raises:
        Uncovered: Spark has planned this micro-batch otherwise.
    """
    nodes = bridge.statefulOperators(plan)
    names = bridge.names(nodes).split()
    if names != [operator.node for operator in operators]:
        raise Uncovered(f"this micro-batch is planned with {names}")
    return operators[0].cut(bridge, plan, nodes.get(0))


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
