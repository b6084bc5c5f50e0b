"""Aggregation by session windows: Spark's `SessionWindowStateStoreSaveExec`, and what sorts and merges around it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

from pyslash.operators.aggregation import AggregationPlan, time_of
from pyslash.plan.catalyst import JavaObject
from pyslash.plan.columns import Column, InputColumns
from pyslash.plan.emission import EVERY_END_US, Emission
from pyslash.plan.functions import Aggregate
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered
from pyslash.plan.spec import AggregateSpec, PlanSpec, SessionSpec
from pyslash.plan.window import TimeWindow
from pyslash.units import Micros

# Any number is a pane: one holds all sessions, and the next one all that are still open when they are rewritten.
_PANES = TimeWindow(1, 1, 0)
# Within a session Spark takes rows in the order of their times, but micro-batch by micro-batch.
_ORDERED = ("first", "last")


@dataclass(frozen=True)
class SessionEmission(Emission):
    """One pane holds all of them, whatever their times: which parts make a session is known only where all are merged.
    From time to time open sessions are rewritten, into a pane with a greater number (docs/design/028).
    """

    @property
    def keeps_groups(self) -> bool:
        """Yes: in append mode too, a session is complete only once nothing can extend it any more."""
        return True

    @property
    def keeps_changes(self) -> bool:
        """Yes: whoever keeps sessions reads an epoch's blocks alone."""
        return True

    def looked_at(self, emitted_us: Micros, watermark_us: Micros, pane: int) -> tuple[int, int]:
        """The pane that holds the sessions."""
        return pane, pane + 1

    def windows(
        self, held: set[int], changed: set[int], emitted_us: Micros, watermark_us: Micros, pane: int
    ) -> list[int]:
        """The pane that holds the sessions, if there are any: they are kept up to date in every epoch."""
        return [pane] if pane in held else []

    def first_live_pane(self, evicted_us: Micros, pane: int) -> int:
        """The pane that holds the sessions."""
        return pane

    def late_windows(self, pane: int, emitted_us: Micros) -> int:
        """None."""
        return 0

    def final_by(self, begin: int) -> int:
        """Its start: sessions that have been emitted end by the watermark, and may touch whatever starts by then."""
        return begin

    def kept_panes(self, evicted_us: Micros, pane: int) -> tuple[int, int]:
        """The pane that holds the sessions, and no other."""
        return pane, pane + 1

    @property
    def needs_all_parts(self) -> bool:
        """Yes: parts make a session."""
        return True

    def closing_us(self, watermark_us: Micros) -> Micros:
        """Sessions that end by this time are emitted."""
        return EVERY_END_US if self.mode is OutputMode.COMPLETE else watermark_us


@dataclass(frozen=True, kw_only=True)
class SessionPlan(AggregationPlan):
    """An aggregation by session windows that is covered.

    Where rows have ends of their own, column 1 of the input is the end of a row's session.
    """

    node: ClassVar[str] = "SessionWindowStateStoreSaveExec"

    @classmethod
    def of(
        cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, mode: OutputMode, windows_truncated: bool
    ) -> Self:
        """Read it from the physical plan of a query that has not started.

        Raises:
            Uncovered: the message is the reason.
        """
        if mode is OutputMode.UPDATE:
            raise Uncovered("sessions have no update mode, in Spark either")
        operator = super().of(bridge, plan, node, mode, windows_truncated)
        for aggregate in operator.aggregates:
            if aggregate.function in _ORDERED:
                raise Uncovered(f"{aggregate.sql} of a session depends on the order in which Spark merges its rows")
        return operator

    @cached_property
    def emission(self) -> SessionEmission:
        """Which sessions reach the sink."""
        return SessionEmission(self.mode, self.window, bool(self.keys))

    @property
    def begin_at(self) -> int | None:
        """The start of the session: there is one pane for all."""
        return 0

    @property
    def grouping(self) -> str:
        """What rows are grouped by besides keys, as users read it."""
        return f"sessions with a gap of {self.identity.session}"

    @classmethod
    def _window(cls, found: JavaObject, windows_truncated: bool) -> TimeWindow:
        return _PANES

    @classmethod
    def _separates_windows(cls, found: JavaObject, functions: list[Aggregate], window: TimeWindow) -> bool:
        for function in functions:
            if function.is_buffer:
                raise Uncovered(f"{function.sql} of a session has no native form")
        return False

    @classmethod
    def _input(cls, found: JavaObject, functions: list[Aggregate]) -> InputColumns:
        ends = [] if int(found.gap()) else [Column(time_of(found).type, True, str(found.sessionEnd()))]
        return InputColumns(found, first=ends)

    @classmethod
    def _spec(
        cls, found: JavaObject, window: TimeWindow, columns: list[Column], keys: list[int], calls: list[AggregateSpec]
    ) -> PlanSpec:
        session = SessionSpec(int(found.gap()), bool(found.isLateByTask()))
        return replace(super()._spec(found, window, columns, keys, calls), session=session)
