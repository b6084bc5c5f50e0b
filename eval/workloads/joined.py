"""Two streams that are joined by key, within a window or a time of each other: state is the rows themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from eval.workloads.base import Workload, timestamps
from eval.workloads.query import Pairs, Query


@dataclass(frozen=True)
class Joined(Workload):
    """Every other row is of the right stream. `by_window`: rows of a window join, else of a time within `within_s`."""

    name: ClassVar[str] = "joined"
    event_time: ClassVar[str] = "ts"

    keys: int = 500_000
    within_s: int = 10
    by_window: bool = False

    @property
    def reads(self) -> int:
        """Once for each side."""
        return 2

    @property
    def is_judged_by_stream(self) -> bool:
        """A row comes in the micro-batch in which the later one of its two comes."""
        return True

    def rows_from(self, begin: int, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """Columns ts (timestamp), key, id (bigint) and is_right (boolean)."""
        rows = self.table(generator, event_time)
        number = np.arange(begin, begin + len(event_time))
        return rows.append_column("id", pa.array(number)).append_column("is_right", pa.array(number % 2 == 1))

    def table(self, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """Columns ts (timestamp) and key (bigint)."""
        return pa.table({"ts": timestamps(event_time), "key": generator.integers(0, self.keys, len(event_time))})

    @property
    def statement(self) -> Query:
        """The ids of each two rows that join."""
        pairs = Pairs(right="is_right", on="key", within_s=self.within_s, by_window=self.by_window)
        return Query(
            time="ts", select=("key", "id", "r_id"), window_s=self.within_s, slide_s=self.within_s, pairs=pairs
        )
