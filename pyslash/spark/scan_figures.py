"""What Spark is told of the rows that were read in its place."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass
class ScanFigures:
    """Figures of a task: rows before filters, and event times (microseconds) after them."""

    rows: int = 0
    times: int = 0
    time_sum: int = 0
    time_min: int | None = None
    time_max: int | None = None

    def add(self, times: pa.Array) -> None:
        """Count the event times of a batch. No time counts as 1970, as in Spark's watermark operator."""
        if not len(times):
            return
        micros = times.cast(pa.int64()).fill_null(0)
        ends = pc.min_max(micros)
        low, high = ends["min"].as_py(), ends["max"].as_py()
        mean = low + round(pc.mean(pc.subtract(micros, low)).as_py())  # a sum of microseconds since 1970 overflows
        self.merge(ScanFigures(0, len(micros), len(micros) * mean, low, high))

    def merge(self, other: ScanFigures) -> None:
        """Add the figures of another task or batch."""
        self.rows += other.rows
        self.times += other.times
        self.time_sum += other.time_sum
        self.time_min = min((t for t in (self.time_min, other.time_min) if t is not None), default=None)
        self.time_max = max((t for t in (self.time_max, other.time_max) if t is not None), default=None)
