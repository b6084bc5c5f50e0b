"""A scan, a filter and a projection: no state, so pyslash leaves it to Spark, and must cost it nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from eval.workloads.base import Workload, timestamps
from eval.workloads.query import Query


@dataclass(frozen=True)
class ReadOnly(Workload):
    """Half of the rows pass the filter."""

    name: ClassVar[str] = "readonly"
    event_time: ClassVar[str] = "ts"

    def table(self, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """Columns ts (timestamp), key (bigint), amount (bigint)."""
        size = len(event_time)
        key = generator.integers(0, 100_000, size)
        amount = generator.integers(-1_000_000, 1_000_000, size)
        return pa.table({"ts": timestamps(event_time), "key": key, "amount": amount})

    @property
    def statement(self) -> Query:
        """`SELECT ts, key, amount * 2 WHERE amount >= 0`."""
        return Query(time="ts", where="amount >= 0", select=("ts", "key", "amount * 2 AS doubled"))
