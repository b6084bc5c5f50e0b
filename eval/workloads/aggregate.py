"""Sum, count and maximum of a bigint by key and window: the workload with a knob for everything that matters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from eval.workloads.base import WATERMARK, Workload, timestamps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Aggregate(Workload):
    """Windows of `window_s` every `slide_s` seconds (equal: tumbling); keys by Zipf of exponent `skew`, 0: even."""

    name: ClassVar[str] = "aggregate"
    event_time: ClassVar[str] = "ts"

    keys: int = 100_000
    window_s: int = 10
    slide_s: int = 10
    skew: float = 0.0

    def table(self, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """Columns ts (timestamp), key (bigint), value (bigint)."""
        size = len(event_time)
        if self.skew:
            key = np.searchsorted(_zipf(self.keys, self.skew), generator.random(size)).astype(np.int64)
        else:
            key = generator.integers(0, self.keys, size)
        value = generator.integers(-1_000_000, 1_000_000, size)
        return pa.table({"ts": timestamps(event_time), "key": key, "value": value})

    def query(self, spark: SparkSession, rows: DataFrame, folder: Path) -> DataFrame:
        """`sum(value), count(*), max(value)` by window and key."""
        from pyspark.sql import functions as F

        window = F.window("ts", f"{self.window_s} seconds", f"{self.slide_s} seconds")
        return (
            rows.withWatermark("ts", WATERMARK)
            .groupBy(window, "key")
            .agg(F.sum("value").alias("sum"), F.count("*").alias("count"), F.max("value").alias("max"))
        )


@cache
def _zipf(keys: int, skew: float) -> np.ndarray:
    """Cumulative probabilities of the ranks 1..keys."""
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -skew
    cumulative = np.cumsum(weights)
    return cumulative / cumulative[-1]
