"""Deduplication: Spark's `StreamingDeduplicateExec`, of `dropDuplicates`.

It is executed as an aggregation: rows are grouped by the keys, a group has the other columns of its first row, and an
epoch emits the groups that it is the first one to have rows of (docs/design/025).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import ClassVar, Self

from pyslash.operators.aggregation import Aggregation, AggregationPlan, Groups
from pyslash.plan.catalyst import JavaObject, elements, understood
from pyslash.plan.columns import Column, InputColumns
from pyslash.plan.emission import Emission
from pyslash.plan.functions import Aggregate
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered
from pyslash.plan.spec import AggregateSpec, PlanSpec
from pyslash.plan.window import TimeWindow
from pyslash.spark.release import is_from
from pyslash.state.manifest import Manifest

# So much longer than Spark a key may be kept. The same whatever the watermark's delay is: a query may be started again
# with another one.
PANE_US = 60_000_000
_FLOATING = ("float32", "float64")


@dataclass(frozen=True, kw_only=True)
class DeduplicationPlan(AggregationPlan):
    """A deduplication of a query that is covered.

    `window` is a pane of the event time where that is one of the keys, so that keys are dropped by whole panes; else
    all time. `aggregates` are those columns of a group's first row that its key does not tell.
    """

    node: ClassVar[str] = "StreamingDeduplicateExec"

    @cached_property
    def emission(self) -> Emission:
        """Which groups reach the sink."""
        return Emission(self.mode, self.window, bool(self.keys), new_only=True)

    @property
    def explain_lines(self) -> list[tuple[str, str]]:
        """What it does, for `explain`: names, and what there is of each."""
        pane = timedelta(microseconds=self.window.pane_us)
        return [
            *(("unique", f"{key.sql}: {key.type}") for key in self.keys),
            *(("first row", aggregate.sql) for aggregate in self.aggregates if aggregate.function == "first"),
            ("kept", "for all time" if self.window.is_all_time else f"in panes of {pane}, of {self.time.sql}"),
        ]

    @classmethod
    def of(
        cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, mode: OutputMode, windows_truncated: bool
    ) -> Self:
        """Read it from the physical plan of a query that has not started.

        Raises:
            Uncovered: the message is the reason.
        """
        # Below an aggregation in complete mode it does what it always does.
        return super().of(
            bridge, plan, node, OutputMode.APPEND if mode is OutputMode.COMPLETE else mode, windows_truncated
        )

    @classmethod
    def _found(cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, mode: OutputMode) -> JavaObject:
        return understood(lambda: bridge.deduplicate(plan, node))

    @classmethod
    def _window(cls, found: JavaObject, windows_truncated: bool) -> TimeWindow:
        return TimeWindow(PANE_US, PANE_US, 0) if found.isTimed() else TimeWindow.all_time()

    @classmethod
    def _functions(cls, found: JavaObject) -> list[Aggregate]:
        return []

    @classmethod
    def _input(cls, found: JavaObject, functions: list[Aggregate]) -> InputColumns:
        # A column is an attribute here, which one micro-batch's plan has as nullable, and another one's has not.
        return InputColumns(found, all_nullable=True)

    @classmethod
    def _groups(cls, found: JavaObject, carried: InputColumns, functions: list[Aggregate]) -> Groups:
        keys, firsts = elements(found.keys()), [elements(one)[0] for one in elements(found.inputs())]
        key_columns = [carried.add(slot, key, f"the key {found.describe(key)}") for slot, key in enumerate(keys)]
        if any(carried.columns[index - 1].type in _FLOATING for index in key_columns) and not _normalises_keys():
            raise Uncovered("a key is a float or double, whose zeros and NaNs Spark before 4.3 tells apart")
        aggregates: list[Aggregate] = []
        inputs: list[list[int]] = []
        for slot, column in enumerate(firsts, len(keys)):
            sql = str(found.describe(column))
            aggregates.append(Aggregate("first", False, sql))
            inputs.append([carried.add(slot, column, f"the column {sql}")])
        return key_columns, aggregates, inputs

    @classmethod
    def _spec(
        cls, found: JavaObject, window: TimeWindow, columns: list[Column], keys: list[int], calls: list[AggregateSpec]
    ) -> PlanSpec:
        return replace(super()._spec(found, window, columns, keys, calls), deduplicates=True)


class Deduplication(Aggregation):
    """The epochs of a deduplication."""

    plan_type: ClassVar[type[OperatorPlan]] = DeduplicationPlan

    def counts(self, manifest: Manifest, groups: int, merged_rows: int | None) -> dict[str, int]:
        """Spark's metrics of the operator: rows of new keys, and the others."""
        if merged_rows is None:
            return {"numUpdatedStateRows": 0, "numDroppedDuplicateRows": 0}
        in_time = manifest.rows - manifest.late_rows
        new = min(merged_rows, in_time)  # the sink may have run its result twice
        return {"numUpdatedStateRows": new, "numDroppedDuplicateRows": in_time - new}


def _normalises_keys() -> bool:
    """Whether Spark takes 0.0 and -0.0, and all NaNs, for one key."""
    return is_from(4, 3)
