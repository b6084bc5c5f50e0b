"""The Arcon experiment: fifty ids, a costly function a row, and partitions of ids that are far from even.

There the function runs where the key's partition is, and skew leaves processors idle. Here it stands below the
aggregation, so every engine runs it where the row is read: what skew can still cost is the state behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from eval.workloads.base import Workload, timestamps
from eval.workloads.choice import cumulative, draw
from eval.workloads.newton import Newton
from eval.workloads.query import Aggregation, Computed, Query

PARTITIONS = {"uniform": (25, 25, 25, 25), "skewed": (51, 20, 7, 22)}  # per cent of the rows; an id's is id % 4


@dataclass(frozen=True)
class Arcon(Workload):
    """`ids` ids in four partitions, `uniform` or `skewed`; `iterations` steps of Newton's square root a row."""

    name: ClassVar[str] = "arcon"
    event_time: ClassVar[str] = "ts"

    rows: int = 1_000_000
    ids: int = 50
    partitions: str = "uniform"
    iterations: int = 100

    def table(self, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """Columns ts (timestamp), id (bigint), value (double, from 1 to 1,000,000)."""
        size = len(event_time)
        partition = np.arange(self.ids) % 4
        shares = np.array(PARTITIONS[self.partitions])[partition] / np.bincount(partition)[partition]
        return pa.table(
            {
                "ts": timestamps(event_time),
                "id": draw(generator, cumulative(shares), size),
                "value": generator.uniform(1, 1_000_000, size),
            }
        )

    @property
    def statement(self) -> Query:
        """`sum(root), count(*)` by id, 10 s tumbling."""
        return Query(
            time="ts",
            computed=Computed("root", "value", Newton(self.iterations)),
            keys=("id",),
            aggregations=(Aggregation("sum", "sum", "root"), Aggregation("count", "count", "*")),
        )
