"""The aggregation in update or complete mode, by window or by key alone: what keeps its groups and emits them often."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa

from eval.workloads.aggregate import Aggregate
from eval.workloads.query import Query


@dataclass(frozen=True)
class Grouped(Aggregate):
    """`mode`: the query's output mode. `opens`: the first micro-batch has a row of each key instead of its share."""

    name: ClassVar[str] = "grouped"

    mode: str = "update"
    by_window: bool = False
    opens: bool = False

    @property
    def output_mode(self) -> str:
        """The query's."""
        return self.mode

    @property
    def statement(self) -> Query:
        """As `Aggregate` has it, by key and perhaps by window."""
        return replace(super().statement, by_window=self.by_window)

    @property
    def files_per_batch(self) -> int:
        """One where the first micro-batch is unlike the others."""
        return 1 if self.opens else super().files_per_batch

    def bounds(self, number: int, files: int) -> tuple[int, int]:
        """The first file has all keys; the others share what is left."""
        if not self.opens:
            return super().bounds(number, files)
        begin, end = (
            self.keys + (self.rows - self.keys) * (n - 1) // max(1, files - 1) if n else 0 for n in (number, number + 1)
        )
        return begin, end

    def rows_from(self, begin: int, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """The first rows, where they open all groups, have the keys in order."""
        rows = super().rows_from(begin, generator, event_time)
        if self.opens and begin == 0:
            rows = rows.set_column(1, "key", pa.array(np.arange(len(event_time))))
        return rows

    def sample(self) -> Self:
        """As of any workload; few enough keys that some rows are left where the first ones open all groups."""
        sample = super().sample()
        return replace(sample, keys=min(self.keys, sample.rows // 2)) if self.opens else sample

    def first(self, batches: int) -> Self:
        """The first micro-batches alone."""
        if not self.opens or batches >= self.batches:
            return super().first(batches)
        small = (self.rows - self.keys) // (self.batches - 1)
        return replace(self, rows=self.keys + small * (batches - 1), batches=batches)
