"""Which operators of a query keep state, and whether pyslash executes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from pyslash.conf import Conf
from pyslash.operators.table import plan_types_of
from pyslash.plan.catalyst import JavaObject, elements, frame_of, items, name_of
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered

_NAMES = {
    "FlatMapGroupsWithStateExec": "flatMapGroupsWithState",
    "TransformWithStateExec": "transformWithState",
    "TransformWithStateInPandasExec": "transformWithStateInPandas",
}
_SOURCE = "StreamingRelationExec"


def match(bridge: JavaObject, df: DataFrame, mode: OutputMode, conf: Conf) -> list[OperatorPlan]:
    """The stateful operators of a streaming DataFrame, as Spark would plan it, each behind those whose rows it takes.

    Args:
        bridge: the JVM's `io.pyslash.Bridge`.
        df: what the query writes.
        mode: of the query.
        conf: of the query.

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
            kinds = _kinds(node)
            for kind in kinds:
                kind.check(bridge, plan, first, conf)
            found = _read(kinds, bridge, plan, first, mode, windows_truncated)
        except Uncovered as reason:
            reason.operator = name_of(node).removesuffix("Exec")
            raise
        stands_on_others = len(elements(bridge.statefulOperators(node))) > 1
        operators.append(replace(found, stands_on_others=stands_on_others, sources=_sources(node)))
    return [*_told_of_each_other(operators)]


def _sources(node: JavaObject) -> int:
    return sum(name_of(leaf) == _SOURCE for leaf in items(node.collectLeaves()))


def _kinds(node: JavaObject) -> list[type[OperatorPlan]]:
    name = name_of(node)
    if name == "StreamingGlobalLimitExec":
        raise Uncovered("limits of a stream's own rows stay on Spark: all of their state is one count")
    kinds = plan_types_of(name)
    if not kinds:
        raise Uncovered(f"{_NAMES.get(name, name.removesuffix('Exec'))}: this stateful operator is not covered yet")
    return kinds


def _read(
    kinds: list[type[OperatorPlan]],
    bridge: JavaObject,
    plan: JavaObject,
    node: JavaObject,
    mode: OutputMode,
    windows_truncated: bool,
) -> OperatorPlan:
    """By the first kind that can; where none can, the last one's reason holds for all."""
    kind, *others = kinds
    try:
        return kind.of(bridge, plan, node, mode, windows_truncated)
    except Uncovered:
        # The others take windows as they are.
        if not others or windows_truncated:
            raise
        return _read(others, bridge, plan, node, mode, windows_truncated)


def _told_of_each_other(operators: list[OperatorPlan]) -> Iterator[OperatorPlan]:
    """The same; what decides which rows an operator takes is all that decides which ones those below it give, too."""
    below = ""
    for operator in operators:
        fingerprint = (
            hashlib.sha256(f"{below}{operator.fingerprint}".encode()).hexdigest() if below else operator.fingerprint
        )
        yield replace(operator, fingerprint=fingerprint)
        below = f"{fingerprint} {operator.identity.fingerprinted} "


def with_few_windows(bridge: JavaObject, df: DataFrame) -> DataFrame:
    """What a query is started with whose rows have many windows: the same with few windows a row."""
    return frame_of(bridge.withTruncatedWindows(df._jdf.queryExecution().analyzed()), df.sparkSession)


def _planned(bridge: JavaObject, df: DataFrame, analysed: JavaObject, mode: OutputMode) -> JavaObject:
    modes = df.sparkSession._jvm.org.apache.spark.sql.streaming.OutputMode
    try:
        return bridge.planned(df.sparkSession._jsparkSession, analysed, getattr(modes, mode.capitalize())())
    except PySparkException as error:
        raise Uncovered(f"Spark does not plan it: {str(error).splitlines()[0]}") from error
