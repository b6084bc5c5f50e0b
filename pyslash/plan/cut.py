"""A stateful operator of Spark's in the physical plan of one micro-batch, cut out of it."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Protocol

from pyslash.plan.catalyst import JavaObject, answer, elements, understood
from pyslash.plan.window import NO_WATERMARK_US
from pyslash.units import Epoch, Micros

_NO_WATERMARK_MS = -(1 << 63)

EventTimes = tuple[int, int, int, float]
"""What Spark collects of event times: count, least, greatest and mean, in milliseconds."""


class OperatorCut(Protocol):
    """The operator in the physical plan of one micro-batch, cut out of it.

    Times are microseconds; `NO_WATERMARK_US`: there is no such watermark.
    """

    @property
    def java(self) -> JavaObject:
        """The JVM's `io.pyslash.catalyst.StreamingOperator`."""

    @property
    def late_us(self) -> Micros:
        """Spark's watermark for late rows: groups that were complete by then accept no more rows."""

    @property
    def eviction_us(self) -> Micros:
        """Spark's watermark for eviction: groups that are complete by then are emitted and dropped."""

    @property
    def is_without_rows(self) -> bool:
        """Whether the micro-batch has no input, as Spark runs one where only the watermark has moved."""

    @property
    def collects_times(self) -> bool:
        """Whether Spark collects the event times of all rows of the input."""

    @property
    def late_rows(self) -> int:
        """Rows that were dropped as late while the input was read, and that are not counted elsewhere."""

    def event_times(self) -> list[EventTimes]:
        """What each of Spark's operators below that collect event times has collected, from the top down; of a job's
        rows when it has ended.
        """

    def add_event_times(self, watermark: int, times: EventTimes) -> None:
        """Have one of them collect these as well, by its place in `event_times`."""

    def forget_event_times(self) -> None:
        """What Spark has collected of event times is not to move its watermark."""

    def reset_counts(self) -> None:
        """Rows below are going to be read once more: what Spark has counted of them is forgotten."""

    def begin(self, epoch: Epoch, evicted_us: Micros, columns: str) -> None:
        """What `input` gives is of this epoch, before which state had been evicted until this watermark, and has these
        columns of the operator (`OperatorPlan.input_columns`).
        """

    def input(self) -> JavaObject:
        """The physical plan of the rows that the operator takes, ready to be executed."""

    def closings(self) -> list[JavaObject]:
        """Plans of the rows of each input that may come too late, and, as their last column, the watermark by which."""

    def over(self, merged: JavaObject) -> JavaObject:
        """The micro-batch's plan, given the Dataset of the operator's rows (`result_schema`) in its place."""

    def count(self, **metrics: int) -> None:
        """Set Spark's own metrics of the operator, by their names."""


class JavaCut:
    """An `OperatorCut` by the JVM's `io.pyslash.catalyst.StreamingOperator`."""

    def __init__(self, java: JavaObject) -> None:
        self.java = java
        self._columns = ""

    @property
    def late_us(self) -> Micros:
        """Rows of windows that end at or before this are late; of no group where there is no watermark."""
        return _microseconds(self._facts["late_ms"])

    @property
    def eviction_us(self) -> Micros:
        """Windows that end at or before this are closed."""
        return _microseconds(self._facts["eviction_ms"])

    @property
    def late_rows(self) -> int:
        """None: native code counts them."""
        return 0

    @property
    def is_without_rows(self) -> bool:
        """Whether the micro-batch has no input."""
        return bool(self._facts["without_rows"])

    @property
    def collects_times(self) -> bool:
        """Whether Spark collects the event times of all rows of the input."""
        return bool(self._facts["collects_times"])

    @cached_property
    def _facts(self) -> dict[str, int]:
        """The JVM's `PlannedOperator.Batch`."""
        facts: dict[str, int] = answer(understood(self.java.batch))
        return facts

    def event_times(self) -> list[EventTimes]:
        """What each of Spark's operators below that collect event times has collected, from the top down; of a job's
        rows when it has ended.
        """
        return [
            (one["count"], one["least"], one["greatest"], float(one["mean"])) for one in answer(self.java.eventTimes())
        ]

    def add_event_times(self, watermark: int, times: EventTimes) -> None:
        """Have one of them collect these as well, by its place in `event_times`."""
        self.java.addEventTimes(watermark, *times)

    def forget_event_times(self) -> None:
        """What Spark has collected of event times is not to move its watermark."""
        self.java.forgetEventTimes()

    def reset_counts(self) -> None:
        """Rows below are going to be read once more: what Spark has counted of them is forgotten."""
        self.java.resetCounts()

    def begin(self, epoch: Epoch, evicted_us: Micros, columns: str) -> None:
        """Its rows are the same in any epoch; their columns are these."""
        self._columns = columns

    def input(self) -> JavaObject:
        """The event time and the columns, as a physical plan."""
        return understood(lambda: self.java.input(self._columns))

    def closings(self) -> list[JavaObject]:
        """Plans of the rows of each input that may come too late, and, as their last column, the watermark by which."""
        return elements(understood(self.java.closings))

    def over(self, merged: JavaObject) -> JavaObject:
        """The plan of the micro-batch with merged rows instead of the operator."""
        return understood(lambda: self.java.over(merged))

    def count(self, **metrics: int) -> None:
        """Set Spark's own metrics of the operator."""
        self.java.count(json.dumps(metrics))


def _microseconds(milliseconds: int) -> Micros:
    return Micros(milliseconds * 1000) if milliseconds != _NO_WATERMARK_MS else NO_WATERMARK_US
