"""A NEXMark query as a workload of the harness: the events as one stream, and one of the queries over it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eval.refusal import CannotRunError
from eval.workloads.base import EPOCH_US, Workload
from eval.workloads.nexmark import events
from eval.workloads.nexmark.catalogue import QUERIES, Described
from eval.workloads.nexmark.queries import SIDE_INPUT, SIDE_INPUT_ROWS, WATERMARK, Events
from eval.workloads.query import Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A query runs for days: what the JVM compiles in the first half of a minute is no figure of it.
WARM_ROWS = 2_000_000
WARM_BATCHES = 16
RATE = 10_000  # events a second of event time, the published configuration's


@dataclass(frozen=True)
class Nexmark(Workload):
    """Query `q` over events of the published configuration; in groups of `group` their order is mixed up."""

    name: ClassVar[str] = "nexmark"
    event_time: ClassVar[str] = "date_time"
    pace: ClassVar[float | None] = RATE

    rows: int = 2_000_000
    span_s: float = 200.0
    q: int = 5
    group: int = 1

    @property
    def described(self) -> Described:
        """What is known of the query."""
        return QUERIES[self.q]

    @property
    def statement(self) -> Query:
        """None: only Spark and Flink have these queries, each as its user would write it."""
        raise CannotRunError(f"NEXMark's q{self.q} is written for Spark and Flink alone")

    @property
    def output_mode(self) -> str:
        """The query's."""
        return self.described.mode

    @property
    def is_judged_by_stream(self) -> bool:
        """Always: not what is emitted alone counts, but when."""
        return True

    @property
    def query_name(self) -> str:
        """Such as nexmark-q5."""
        return f"{self.name}-q{self.q}"

    @property
    def rows_of(self) -> Self:
        """All queries have the same events."""
        return replace(self, q=0)

    @property
    def reads(self) -> int:
        """Once for each view of the events that is in the query."""
        return self.described.reads

    @property
    def has_state(self) -> bool:
        """Whether the query has any."""
        return self.described.has_state

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns of the result that tell its rows apart."""
        return self.described.identity

    @property
    def longest_window_s(self) -> int:
        """Of any query."""
        return 10

    @property
    def windows_a_row(self) -> int:
        """Only q5's overlap."""
        return 5 if self.q == 5 else 1

    def query(self, spark: SparkSession, rows: DataFrame, folder: Path) -> DataFrame:
        """As PySpark has it."""
        timed = rows.withWatermark(self.event_time, WATERMARK) if self.described.timed else rows
        return self.described.function(Events(spark, timed, folder))

    def below(self, spark: SparkSession, rows: DataFrame, folder: Path) -> DataFrame:
        """The bids: what most queries aggregate."""
        return Events(spark, rows, folder).bid

    def warm_up(self) -> Self:
        """Fewer rows than are measured, in more micro-batches."""
        rows = min(WARM_ROWS, self.rows)
        return replace(self, rows=rows, batches=WARM_BATCHES, span_s=self.span_s * rows / self.rows)

    def times(self, generator: np.random.Generator, begin: int, end: int) -> np.ndarray:
        """Even, in order but for the groups."""
        return EPOCH_US + (self._numbers(begin, end) * self._gap_us).astype(np.int64)

    def rows_from(self, begin: int, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """See `events.events`."""
        number = self._numbers(begin, begin + len(event_time))
        return events.events(events.PUBLISHED, generator, number, event_time, self._gap_us, self.seed)

    def table(self, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """The first events."""
        return self.rows_from(0, generator, event_time)

    def write_extras(self, folder: Path) -> None:
        """The table of q13: each key with its own digits."""
        keys = pa.array(np.arange(SIDE_INPUT_ROWS))
        pq.write_table(pa.table({"key": keys, "value": keys.cast(pa.string())}), folder / SIDE_INPUT)

    @property
    def _gap_us(self) -> float:
        return self.span_s * 1e6 / self.rows

    def _numbers(self, begin: int, end: int) -> np.ndarray:
        return events.out_of_order(np.arange(begin, end), self.group)
