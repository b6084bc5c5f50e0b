"""How the values of a key spread: distinct ones, natively, and their median, in buffers of Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from eval.workloads.aggregate import Aggregate
from eval.workloads.query import Aggregation, Query


@dataclass(frozen=True)
class Spread(Aggregate):
    """`median`: that, too, which has no native form."""

    name: ClassVar[str] = "spread"

    keys: int = 1_000
    median: bool = True

    @property
    def statement(self) -> Query:
        """`approx_count_distinct(value), count(*)`, and perhaps `median(value)`, by window and key."""
        medians = (Aggregation("median", "median", "value"),) if self.median else ()
        distinct = Aggregation("distinct", "approx_count_distinct", "value")
        counted = (distinct, Aggregation("count", "count", "*"), *medians)
        return Query(time="ts", keys=("key",), aggregations=counted, window_s=self.window_s, slide_s=self.slide_s)
