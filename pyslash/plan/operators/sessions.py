"""Aggregation by session windows: Spark's `SessionWindowStateStoreSaveExec`, and what sorts and merges around it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

from pyslash.plan.catalyst import JavaObject
from pyslash.plan.emission import SessionEmission
from pyslash.plan.functions import Aggregate
from pyslash.plan.operators.aggregation import Aggregation, time_of
from pyslash.plan.operators.columns import Column, InputColumns
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered
from pyslash.plan.window import TimeWindow

# Any number is a pane: one holds all sessions, and the next one all that are still open when they are rewritten.
_PANES = TimeWindow(1, 1, 0)
# Within a session Spark takes rows in the order of their times, but micro-batch by micro-batch.
_ORDERED = ("first", "last")


@dataclass(frozen=True)
class SessionAggregation(Aggregation):
    """An aggregation by session windows that is covered.

    Where rows have ends of their own, column 1 of the input is the end of a row's session.
    """

    node: ClassVar[str] = "SessionWindowStateStoreSaveExec"

    @classmethod
    def of(cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, mode: OutputMode, thinned: bool) -> Self:
        """Read it from the physical plan of a query that has not started.

        Raises:
            Uncovered: the message is the reason.
        """
        if mode is OutputMode.UPDATE:
            raise Uncovered("sessions have no update mode, in Spark either")
        operator = super().of(bridge, plan, node, mode, thinned)
        for aggregate in operator.aggregates:
            if aggregate.function in _ORDERED:
                raise Uncovered(f"{aggregate.sql} of a session depends on the order in which Spark merges its rows")
        return operator

    @cached_property
    def emission(self) -> SessionEmission:
        """Which sessions reach the sink."""
        return SessionEmission(self.mode, self.window, bool(self.keys))

    @property
    def grouping(self) -> str:
        """What rows are grouped by besides keys, as users read it."""
        return f"sessions with a gap of {self.identity.session}"

    def place(self, pane: int, evicted_us: int) -> str:
        """The line of a plan that only update tasks are given: where parts of sessions go, and what is over by then."""
        return f"place {pane} {evicted_us}\n"

    @classmethod
    def _window(cls, found: JavaObject, thinned: bool) -> TimeWindow:
        return _PANES

    @classmethod
    def _check_buffers(cls, found: JavaObject, functions: list[Aggregate], window: TimeWindow) -> None:
        for function in functions:
            if function.is_buffer:
                raise Uncovered(f"{function.sql} of a session has no native form")

    @classmethod
    def _input(cls, found: JavaObject, functions: list[Aggregate]) -> InputColumns:
        ends = [] if int(found.gap()) else [Column(time_of(found).type, True, str(found.sessionEnd()))]
        return InputColumns(found.describe, first=ends)

    @classmethod
    def _window_lines(cls, found: JavaObject, window: TimeWindow) -> list[str]:
        return [*super()._window_lines(found, window), f"session {int(found.gap())} {int(bool(found.isLateByTask()))}"]
