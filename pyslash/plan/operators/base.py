"""What pyslash needs to know about a stateful operator of Spark: once for a query, and for each micro-batch."""

from __future__ import annotations

from typing import ClassVar, Protocol, Self

from pyspark.sql import SparkSession

from pyslash.plan.catalyst import JavaObject
from pyslash.plan.output_mode import OutputMode

EventTimes = tuple[int, int, int, float]
"""What Spark collects of event times: count, least, greatest and mean, in milliseconds."""


class OperatorCut(Protocol):
    """The operator in the physical plan of one micro-batch, cut out of it.

    Times are microseconds; `NO_WATERMARK_US`: there is no such watermark.
    """

    @property
    def late_us(self) -> int:
        """Spark's watermark for late rows: groups that were complete by then accept no more rows."""

    @property
    def eviction_us(self) -> int:
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

    @property
    def delays_ms(self) -> list[int]:
        """The delays of Spark's operators below that collect event times, from the top down, in milliseconds."""

    def event_times(self) -> list[EventTimes]:
        """What each of these operators has collected; of a job's rows when it has ended."""

    def add_event_times(self, watermark: int, times: EventTimes) -> None:
        """Have one of them collect these as well, by its place in `delays_ms`."""

    def reset_counts(self) -> None:
        """Rows below are going to be read once more: what Spark has counted of them is forgotten."""

    def begin(self, epoch: int, evicted_us: int, columns: str) -> None:
        """What `input` gives is of this epoch, before which state had been evicted until this watermark, and has these
        columns of the operator (`Aggregation.carried`).
        """

    def input(self) -> JavaObject:
        """The physical plan of the rows that the operator takes, ready to be executed."""

    def over(self, merged: JavaObject) -> JavaObject:
        """The micro-batch's plan, given the Dataset of the operator's rows (`result_schema`) in its place."""

    def count(self, **metrics: int) -> None:
        """Set Spark's own metrics of the operator, by their names."""


class StatefulOperator(Protocol):
    """A stateful operator of a query that is covered."""

    node: ClassVar[str]
    """The class of Spark's node, without its package."""

    @classmethod
    def of(cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, mode: OutputMode, thinned: bool) -> Self:
        """The operator of this node of a physical plan, which may have only some of a row's windows (`thinned`).

        Raises:
            Uncovered: the message is the reason.
        """

    def without(self, bridge: JavaObject, plan: JavaObject, node: JavaObject, session: SparkSession) -> JavaObject:
        """The physical plan with no rows instead of the operator, in which the operators above it are found."""

    def cut(self, bridge: JavaObject, plan: JavaObject, node: JavaObject) -> OperatorCut:
        """The same operator in the plan of a micro-batch.

        Raises:
            Uncovered: Spark has planned this micro-batch otherwise.
        """
