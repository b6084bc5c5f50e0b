"""A count and a sum of each key, kept by the user's own code in Python: what a call of it, and of its state, costs.

Beside them lists and maps, and timers: each call of state is a message between processes in Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from eval.workloads.base import WATERMARK
from eval.workloads.grouped import Grouped
from eval.workloads.query import Aggregation, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS, FRAMES, GROUP_STATE = "transformWithState", "transformWithStateInPandas", "applyInPandasWithState"
LISTS, TIMERS = f"{ROWS}, list and map", f"{ROWS}, timers"
CALLS, VARIABLES = (ROWS, FRAMES, GROUP_STATE), (LISTS, TIMERS)
KINDS = (*CALLS, *VARIABLES)
STATE = "count long, sum long"
RESULT = "key long, sum long, count long"
TOLD_MS = 1_500  # of event time, of which a micro-batch has more


@dataclass(frozen=True)
class Arbitrary(Grouped):
    """`kind`: which of Spark's operators calls the user's code."""

    name: ClassVar[str] = "arbitrary"

    kind: str = ROWS

    @property
    def query_name(self) -> str:
        """An engine that is warm for one kind is not for the others."""
        return f"{self.name}-{self.kind}"

    @property
    def statement(self) -> Query:
        """What the user's code computes, as SQL has it."""
        totals = (Aggregation("sum", "sum", "value"), Aggregation("count", "count", "*"))
        return Query(time="ts", keys=("key",), aggregations=totals, by_window=False)

    def query(self, spark: SparkSession, rows: DataFrame, folder: Path) -> DataFrame:
        """The operator over all rows by key."""
        grouped = self.statement.below_on_spark(spark, rows, folder, WATERMARK).groupBy("key")
        if self.kind == GROUP_STATE:
            return grouped.applyInPandasWithState(count_group, RESULT, STATE, self.output_mode, "NoTimeout")
        if self.kind == FRAMES:
            return grouped.transformWithStateInPandas(_frame_counter(), RESULT, self.output_mode, "None")
        processor, time_mode = _ROWS[self.kind]
        return grouped.transformWithState(processor(), RESULT, self.output_mode, time_mode)


def count_group(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """For `applyInPandasWithState`."""
    count, total = state.get if state.exists else (0, 0)
    for frame in frames:
        count, total = count + len(frame), total + int(frame["value"].sum())
    state.update((count, total))
    yield pd.DataFrame({"key": [key[0]], "sum": [total], "count": [count]})


def _counted(state: Any, rows: Iterator[Any]) -> tuple[int, int]:
    """The count and the sum of a key, with these rows."""
    count, total = state.get() or (0, 0)
    for row in rows:
        count, total = count + 1, total + row.value
    state.update((count, total))
    return count, total


def _row_counter() -> Any:
    """For `transformWithState`. PySpark's base classes are imported where there is a PySpark that has them."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class RowCounter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.state = handle.getValueState("totals", STATE)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
            count, total = _counted(self.state, rows)
            yield Row(key=key[0], sum=total, count=count)

    return RowCounter()


def _last_values() -> Any:
    """The last values of a key in a list, and how many there were of each kind in a map."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class LastValues(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.last = handle.getListState("last", "value long")
            self.counts = handle.getMapState("counts", "kind int", "count long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
            last = [value for (value,) in self.last.get()]
            for row in rows:
                last.append(row.value)
                kind = (row.value % 4,)
                self.counts.updateValue(kind, ((self.counts.getValue(kind) or (0,))[0] + 1,))
            self.last.put([(value,) for value in last[-8:]])
            count = sum(count for _, (count,) in self.counts.iterator())
            yield Row(key=key[0], sum=sum(last[-8:]), count=count)

    return LastValues()


def _told_counter() -> Any:
    """The count and the sum, told by a timer when the watermark has gone on for `TOLD_MS`."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class ToldCounter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.state = handle.getValueState("totals", STATE)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
            _counted(self.state, rows)
            if not list(self.handle.listTimers()):
                self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + TOLD_MS)
            yield from ()

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
            count, total = self.state.get()
            yield Row(key=key[0], sum=total, count=count)

    return ToldCounter()


_ROWS = {
    ROWS: (_row_counter, "None"),
    LISTS: (_last_values, "None"),
    TIMERS: (_told_counter, "EventTime"),
}


def _frame_counter() -> Any:
    """For `transformWithStateInPandas`."""
    from pyspark.sql.streaming import StatefulProcessor

    class FrameCounter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.state = handle.getValueState("totals", STATE)

        def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
            count, total = self.state.get() or (0, 0)
            for frame in rows:
                count, total = count + len(frame), total + int(frame["value"].sum())
            self.state.update((count, total))
            yield pd.DataFrame({"key": [key[0]], "sum": [total], "count": [count]})

    return FrameCounter()
