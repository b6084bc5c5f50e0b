"""Sum, count and maximum of a bigint by key and window: the workload with a knob for everything that matters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa

from eval.workloads.base import Workload, timestamps
from eval.workloads.choice import draw, zipf
from eval.workloads.query import Aggregation, Query


@dataclass(frozen=True)
class Aggregate(Workload):
    """Windows of `window_s` every `slide_s` seconds (equal: tumbling); keys by Zipf of exponent `skew`, 0: even.

    `text`: keys are strings of 8 to 40 bytes.
    """

    name: ClassVar[str] = "aggregate"
    event_time: ClassVar[str] = "ts"

    keys: int = 100_000
    window_s: int = 10
    slide_s: int = 10
    skew: float = 0.0
    text: bool = False

    @property
    def rows_of(self) -> Self:
        """Windows of any length have the same rows, unless they say how late one may be."""
        return self if self.late else replace(self, window_s=10, slide_s=10)

    def table(self, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """Columns ts (timestamp), key (bigint, or string), value (bigint)."""
        size = len(event_time)
        probabilities = zipf(self.keys, self.skew) if self.skew else None
        key = generator.integers(0, self.keys, size) if probabilities is None else draw(generator, probabilities, size)
        value = generator.integers(-1_000_000, 1_000_000, size)
        keys = _names(self.keys).take(pa.array(key)) if self.text else key
        return pa.table({"ts": timestamps(event_time), "key": keys, "value": value})

    @property
    def statement(self) -> Query:
        """`sum(value), count(*), max(value)` by window and key."""
        return Query(
            time="ts",
            keys=("key",),
            aggregations=(
                Aggregation("sum", "sum", "value"),
                Aggregation("count", "count", "*"),
                Aggregation("max", "max", "value"),
            ),
            window_s=self.window_s,
            slide_s=self.slide_s,
        )


@lru_cache(maxsize=1)
def _names(keys: int) -> pa.Array:
    """A string of 8 to 40 bytes for each key."""
    return pa.array([f"{number:08x}{'-' * (number * 7919 % 33)}" for number in range(keys)])
