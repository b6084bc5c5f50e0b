"""Aggregation by keys alone, one of which may be the event time itself, or a window that Spark makes.

Panes hold many moments (docs/design/060). Whether a group is late, or complete, its own time tells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import ClassVar

from pyslash.operators.aggregation import AggregationPlan
from pyslash.plan.catalyst import JavaObject
from pyslash.plan.columns import Column
from pyslash.plan.emission import Emission
from pyslash.plan.functions import Aggregate
from pyslash.plan.reasons import Uncovered
from pyslash.plan.spec import AggregateSpec, PlanSpec
from pyslash.plan.window import TimeWindow, windows_between
from pyslash.units import Micros

# Of what has been emitted so much stays. An epoch reads what is open of one pane once more than it has to.
PANE_US = 10_000_000


@dataclass(frozen=True)
class MomentEmission(Emission):
    """Groups of many moments are in a pane, so that the watermark may stand within one."""

    def looked_at(self, emitted_us: Micros, watermark_us: Micros, pane: int) -> tuple[int, int]:
        """The panes that have moments between the watermarks."""
        first, end = super().looked_at(emitted_us, watermark_us, pane)
        return first, end + 1 if self.as_windows_close else end

    def windows(
        self, held: set[int], changed: set[int], emitted_us: Micros, watermark_us: Micros, pane: int
    ) -> list[int]:
        """Panes of which groups are emitted."""
        if not self.as_windows_close:
            return super().windows(held, changed, emitted_us, watermark_us, pane)
        if watermark_us <= emitted_us:
            return []
        return windows_between(self.window, held, emitted_us, Micros(watermark_us + self.window.size_us))

    def late_windows(self, pane: int, emitted_us: Micros) -> int:
        """None: native code counts late rows."""
        return 0


@dataclass(frozen=True, kw_only=True)
class KeyedAggregationPlan(AggregationPlan):
    """An aggregation of a query that is covered, of whose windows Spark makes keys.

    `window` is a pane if the watermark ends groups, and else all time.
    """

    by_keys: ClassVar[bool] = True

    @cached_property
    def emission(self) -> Emission:
        """Which groups reach the sink."""
        kind = MomentEmission if self.spec.moments else Emission
        return kind(self.mode, self.window, bool(self.keys))

    @property
    def grouping(self) -> str:
        """What rows are grouped by besides keys, as users read it."""
        if not self.spec.moments:
            return super().grouping
        return f"no window but the keys, panes of {timedelta(microseconds=self.window.pane_us)}"

    @property
    def backfill_obstacle(self) -> str:
        """A pane holds moments before the watermark, which have been emitted, beside others that are open."""
        if self.spec.moments:
            return "its groups end at moments of event time, and it keeps them by panes in which some have ended"
        return super().backfill_obstacle

    @classmethod
    def _window(cls, found: JavaObject, windows_truncated: bool) -> TimeWindow:
        return TimeWindow(PANE_US, PANE_US, 0) if found.isTimed() else TimeWindow.all_time()

    @classmethod
    def _functions(cls, found: JavaObject) -> list[Aggregate]:
        functions = super()._functions(found)
        for function in functions:
            if function.is_buffer and found.hasTotals():
                raise Uncovered(
                    f"{function.sql} of a rollup or cube of a window would gather buffers of Spark's own code, as no "
                    "watermark ends its totals"
                )
        return functions

    @classmethod
    def _spec(
        cls, found: JavaObject, window: TimeWindow, columns: list[Column], keys: list[int], calls: list[AggregateSpec]
    ) -> PlanSpec:
        return replace(super()._spec(found, window, columns, keys, calls), moments=bool(found.isTimed()))
