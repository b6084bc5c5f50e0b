"""The plan of a user's own state in Python: of `transformWithState`, over rows or frames, and `applyInPandasWithState`.

Its state is a table: bytes of a key -> bytes of that key's variables and timers, of which the newest count
(docs/design/050).
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StructType, TimestampType

from pyslash.conf import Conf
from pyslash.operators.transform.function import GROUP_STATE, UserFunction
from pyslash.operators.transform.rows import Columns
from pyslash.operators.transform.state.values import is_kept
from pyslash.operators.transform.state.variables import declared, group_state
from pyslash.plan.catalyst import JavaObject, answer, understood
from pyslash.plan.change.evolution import Evolution
from pyslash.plan.change.identity import OF_A_PROCESSOR
from pyslash.plan.change.processor import ProcessorState
from pyslash.plan.columns import Column
from pyslash.plan.cut import JavaCut
from pyslash.plan.emission import EpochEmission
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered
from pyslash.plan.spec import AggregateSpec, PlanSpec
from pyslash.plan.window import TimeWindow
from pyslash.spark.release import is_from

_KEY, _STATE = 1, 2
_BY_PROCESSING_TIME, _BY_EVENT_TIME = "ProcessingTime", "EventTime"
_SPEC = PlanSpec(
    window=TimeWindow(1, 1, 0),  # each pane by itself (`processor_blocks`)
    columns=(Column("binary", False, "").spec, Column("binary", False, "").spec),
    keys=(_KEY,),
    aggregates=(AggregateSpec("last", (_STATE,)),),
)


@dataclass(frozen=True)
class TransformEmission(EpochEmission):
    """An epoch emits the rows that its tasks have written into its own pane, and needs no pane before that."""

    @property
    def changes_only(self) -> bool:
        """No: whatever the pane has."""
        return False

    @property
    def keeps_groups(self) -> bool:
        """No: homes are in Python's workers."""
        return False

    def windows(self, held: set[int], changed: set[int], emitted_us: int, watermark_us: int, pane: int) -> list[int]:
        """The epoch's pane, if it has rows."""
        return [pane] if pane in changed else []

    def first_live_pane(self, evicted_us: int, pane: int) -> int:
        """The epoch's pane."""
        return pane


@dataclass(frozen=True, kw_only=True)
class TransformPlan(OperatorPlan):
    """A transformation that is covered.

    `function` is the user's, `time_mode` what its timers go by, as Spark names it. `time_at` is the place of the event
    time that makes rows late among the input's `columns_at`, if one does, and `has_time` says whether there is one.
    `dropped` are the variables that the checkpoint has state of, and that the processor deletes.
    """

    node: ClassVar[str] = "TransformWithStateInPySparkExec"
    gives: ClassVar[str] = "rows: written by the tasks that run the processor"
    may_repartition: ClassVar[bool] = False

    function: UserFunction
    time_mode: str
    columns_at: Columns
    time_at: int | None
    has_time: bool
    dropped: tuple[str, ...] = ()

    @cached_property
    def emission(self) -> TransformEmission:
        """Which panes are needed."""
        return TransformEmission(self.mode, self.window, True)

    @property
    def grouping(self) -> str:
        """What rows are grouped by, as users read it."""
        return f"processor in Python, timers by {self.time_mode}"

    @property
    def explain_lines(self) -> list[tuple[str, str]]:
        """What it does, for `explain`: names, and what there is of each."""
        keys = StructType.fromJson(json.loads(self.function.key_schema)).simpleString()
        return [("processor", f"timers by {self.time_mode}"), ("keys", keys)] + [
            ("state", variable.kept.sql) for variable in self.function.variables
        ]

    @classmethod
    def check(cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, conf: Conf) -> None:
        """Pass if it is covered as far as Spark's plan tells, and switched on: nothing of the user's has run by then.

        Raises:
            Uncovered: the message is the reason.
        """
        _check_release()
        _check(_facts(understood(lambda: bridge.transform(plan, node))))
        if not conf.runs_processors:
            raise Uncovered("a processor in Python runs on plain Spark by spark.slash.processors=off")

    @classmethod
    def of(
        cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, mode: OutputMode, windows_truncated: bool
    ) -> Self:
        """Read it from the physical plan of a query that has not started, and run the processor's `init`.

        Raises:
            Uncovered: the message is the reason.
        """
        found = understood(lambda: bridge.transform(plan, node))
        facts = _facts(found)
        function = _function(facts)
        shown = f"the state of {StructType.fromJson(json.loads(facts['keys'])).simpleString()}"
        columns = [
            Column("binary", False, shown),
            Column("binary", False, _state(function).text),
        ]
        return cls(
            mode=mode,
            time=Column("timestamp", False, OF_A_PROCESSOR),
            keys=[columns[_KEY - 1]],
            columns=columns,
            spec=_SPEC,
            fingerprint=hashlib.sha256(str(found.fingerprint()).encode()).hexdigest(),
            scan_obstacle="a processor in Python takes its rows",
            windows_truncated=False,
            function=function,
            time_mode=facts["timers"],
            columns_at=Columns.of(facts["offsets"]),
            time_at=facts["times"][0] if facts["timers"] == _BY_EVENT_TIME and facts["times"] else None,
            has_time=bool(facts["times"]),
        )

    def evolved(self, evolution: Evolution) -> Self:
        """The same, on the state of a processor that has declared other variables."""
        return replace(super().evolved(evolution), dropped=evolution.dropped)

    def without(self, bridge: JavaObject, plan: JavaObject, node: JavaObject, session: SparkSession) -> JavaObject:
        """The plan with no rows instead of the operator."""
        return understood(lambda: bridge.transform(plan, node)).overNothing(session._jsparkSession)

    def cut(self, bridge: JavaObject, plan: JavaObject, node: JavaObject) -> TransformCut:
        """The operator in the plan of a micro-batch.

        Raises:
            Uncovered: Spark has planned this micro-batch otherwise.
        """
        return TransformCut(understood(lambda: bridge.transform(plan, node)))


@dataclass(frozen=True, kw_only=True)
class GroupStatePlan(TransformPlan):
    """An `applyInPandasWithState` that is covered."""

    node: ClassVar[str] = "FlatMapGroupsInPandasWithStateExec"


class TransformCut(JavaCut):
    """A transformation cut out of the physical plan of a micro-batch."""

    @cached_property
    def moment(self) -> dict[str, Any]:
        """The time of the micro-batch, `batch_ms`, the number of `homes`, and the `initial_offsets`."""
        found: dict[str, Any] = answer(self.java.moment())
        return found

    @cached_property
    def initial_columns(self) -> Columns | None:
        """Those of the initial state's rows; None: there is none to take."""
        offsets = self.moment["initial_offsets"]
        return Columns.of(offsets) if offsets is not None else None

    def input(self) -> JavaObject:
        """The home of the key, and the columns, as a physical plan whose partitions are homes."""
        return understood(lambda: self.java.input())

    def initial(self) -> JavaObject | None:
        """The same of the initial state's rows; None: there is none to take."""
        return understood(lambda: self.java.initial())


def result_schema() -> StructType:
    """Of merged rows: the bounds of the pane, the number of the stream, the stream."""
    bounds = StructType().add("pane", TimestampType(), False).add("end", TimestampType(), False)
    return bounds.add("name", BinaryType(), False).add("rows", BinaryType(), True)


def _facts(found: JavaObject) -> dict[str, Any]:
    """What the JVM tells of it."""
    facts: dict[str, Any] = answer(found.facts())
    return facts


def _check_release() -> None:
    if not is_from(4, 3):
        raise Uncovered("a processor in Python is covered from Spark 4.3 on")


def _check(facts: dict[str, Any]) -> None:
    if facts["has_broadcasts"]:
        raise Uncovered("a processor that reads a broadcast variable is not covered yet")
    by_event_time = facts["timers"] == _BY_EVENT_TIME
    if by_event_time and len(facts["times"]) > 1:
        raise Uncovered("a processor's input has more than one event time")
    if by_event_time:
        columns = StructType.fromJson(json.loads(facts["columns"])).fields
        for at in facts["times"]:
            if isinstance(columns[at].dataType, StructType):
                raise Uncovered(f"a processor's event time is the time window {columns[at].name}")
    for key in StructType.fromJson(json.loads(facts["keys"])).fields:
        if not is_kept(key.dataType, as_key=True):
            raise Uncovered(f"a processor's key {key.name} is a {key.dataType.simpleString()}, which is not kept yet")


def _function(facts: dict[str, Any]) -> UserFunction:
    command = base64.b64decode(facts["command"])
    deleted: list[str] = []
    if facts["takes"] == GROUP_STATE:
        variables = group_state(command, facts["state"])
    else:
        variables, deleted = declared(command, facts["timers"] == _BY_PROCESSING_TIME)
    schemas = facts["keys"], facts["columns"], facts["output"]
    return UserFunction(command, facts["takes"], tuple(variables), *schemas, tuple(deleted))


def _state(function: UserFunction) -> ProcessorState:
    """What its state is told by."""
    variables = sorted((one.kept for one in function.variables), key=lambda one: one.name)
    return ProcessorState(tuple(variables), function.deleted)
