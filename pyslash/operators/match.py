"""Which operators of a query keep state, and whether pyslash executes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from pyslash.operators.table import plan_type_of
from pyslash.plan.catalyst import JavaObject, elements, name_of
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered

_NAMES = {
    "StreamingGlobalLimitExec": "limits",
    "FlatMapGroupsWithStateExec": "flatMapGroupsWithState",
    "FlatMapGroupsInPandasWithStateExec": "applyInPandasWithState",
    "TransformWithStateExec": "transformWithState",
    "TransformWithStateInPySparkExec": "transformWithState",
}


def match(bridge: JavaObject, df: DataFrame, mode: OutputMode = OutputMode.APPEND) -> list[OperatorPlan]:
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
    thin = bridge.withTruncatedWindows(analysed)
    windows_truncated = not thin.equals(analysed)
    plan = _planned(bridge, df, thin, mode)
    nodes = elements(bridge.statefulOperators(plan))
    if not nodes:
        raise Uncovered("it has no stateful operator: there is no state to keep")
    if windows_truncated and len(nodes) > 1:
        raise Uncovered("a row has too many windows for a query with several stateful operators")
    operators: list[OperatorPlan] = []
    first = nodes[0]
    for node in nodes:
        if operators:
            plan = operators[-1].without(bridge, plan, first, df.sparkSession)
            first = elements(bridge.statefulOperators(plan))[0]
        try:
            found = _kind(node).of(bridge, plan, first, mode, windows_truncated)
        except Uncovered as reason:
            reason.operator = name_of(node).removesuffix("Exec")
            raise
        operators.append(replace(found, stands_on_others=len(elements(bridge.statefulOperators(node))) > 1))
    return [*_told_of_each_other(operators)]


def _kind(node: JavaObject) -> type[OperatorPlan]:
    name = name_of(node)
    kind = plan_type_of(name)
    if kind is None:
        raise Uncovered(f"{_NAMES.get(name, name.removesuffix('Exec'))}: this stateful operator is not covered yet")
    return kind


def _told_of_each_other(operators: list[OperatorPlan]) -> Iterator[OperatorPlan]:
    """The same; what decides which rows an operator takes is all that decides which ones those below it give, too."""
    below = ""
    for operator in operators:
        fingerprint = (
            hashlib.sha256(f"{below}{operator.fingerprint}".encode()).hexdigest() if below else operator.fingerprint
        )
        yield replace(operator, fingerprint=fingerprint)
        below = f"{fingerprint} {operator.identity.fingerprinted} "


def started(bridge: JavaObject, df: DataFrame) -> DataFrame:
    """What the query is started with: the frame itself, or the same with few windows a row."""
    session = df.sparkSession
    analysed = df._jdf.queryExecution().analyzed()
    return DataFrame(
        session._jvm.org.apache.spark.sql.classic.Dataset.ofRows(
            session._jsparkSession, bridge.withTruncatedWindows(analysed)
        ),
        session,
    )


def _planned(bridge: JavaObject, df: DataFrame, analysed: JavaObject, mode: OutputMode) -> JavaObject:
    modes = df.sparkSession._jvm.org.apache.spark.sql.streaming.OutputMode
    try:
        return bridge.planned(df.sparkSession._jsparkSession, analysed, getattr(modes, mode.capitalize())())
    except PySparkException as error:
        raise Uncovered(f"Spark does not plan it: {str(error).splitlines()[0]}") from error
