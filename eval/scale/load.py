"""The rows of update tasks: how many an executor has, and of which keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

EVEN, EXECUTOR, KEY = SKEWS = ("even", "executor", "key")
_HOT = 0


@dataclass(frozen=True)
class Load:
    """Of an epoch. `rows` are an executor's, on average, their keys drawn at random; 0: each block has each key once.

    `skew`: the first executor has half of all rows, in as many tasks as the others; or one key has half of each task's.
    """

    keys: int
    blocks: int
    rows: int = 0
    skew: str = EVEN

    def rows_of(self, executor: int, executors: int) -> int:
        """Of a task of that executor.

        >>> [Load(10, 2, 800, EXECUTOR).rows_of(executor, 5) for executor in (0, 1)]
        [1000, 250]
        """
        if not self.rows:
            return self.keys
        of_all = self.rows * executors
        if self.skew == EXECUTOR and executors > 1:
            half = of_all // 2
            return (half if executor == 0 else half // (executors - 1)) // self.blocks
        return self.rows // self.blocks

    def batches(self, epoch: int, executor: int, executors: int) -> Iterator[pa.RecordBatch]:
        """The rows of each task of that executor, all in one window."""
        rows = self.rows_of(executor, executors)
        for task in range(self.blocks):
            keys = np.arange(rows)
            if self.rows:
                keys = np.random.default_rng((epoch, executor, task)).integers(self.keys, size=rows)
            if self.skew == KEY:
                keys[: rows // 2] = _HOT
            times = pa.array(np.zeros(rows, np.int64)).cast(pa.timestamp("us", "UTC"))
            yield pa.record_batch([times, pa.array(keys), pa.array(np.ones(rows, np.int64))], names=["t", "k", "v"])
