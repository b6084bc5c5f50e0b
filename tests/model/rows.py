"""What a run reads, and what it must give: the oracle is a dictionary."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass

import pyarrow as pa

from pyslash.plan.window import TimeWindow

SECOND = 1_000_000
Row = tuple[int, int, int]  # event time (seconds), key, value
Group = tuple[int, int, int, int]  # window's start (seconds), key, sum, count


@dataclass(frozen=True)
class Epoch:
    """A micro-batch: the rows of each partition, and what Spark and the sink must see of it."""

    partitions: list[list[Row]]
    before_us: int  # watermark as of the end of the epoch before
    emits: list[Group]

    @property
    def latest_us(self) -> int:
        """The latest event time."""
        return max((row[0] for rows in self.partitions for row in rows), default=-(1 << 40)) * SECOND


@dataclass(frozen=True)
class Workload:
    """A query and its input."""

    window: TimeWindow
    delay_us: int
    epochs: list[Epoch]

    @property
    def plan(self) -> str:
        """Key, sum and count."""
        window = f"window {self.window.size_us} {self.window.slide_us} 0"
        return (
            f"pyslash-plan 1\n{window}\ncolumn int64 1\ncolumn int64 1\nkey 1\naggregate sum 2 1\naggregate count - 1\n"
        )


def workload(number: int) -> Workload:
    """The input of a schedule; its last row closes every window."""
    chance = random.Random(number)
    size, slide = chance.choice([(10, 10), (10, 5), (15, 5)])
    delay, step = chance.choice([0, 5, 20]), chance.choice([3, 7])
    batches = [
        [
            [
                (1000 + step * epoch + chance.randint(-12, 12), chance.randrange(3), chance.randrange(100))
                for _ in range(chance.randint(0, 4))
            ]
            for _ in range(chance.randint(1, 3))
        ]
        for epoch in range(chance.randint(3, 6))
    ]
    batches.append([[(5000, 0, 1)]])
    return Workload(
        TimeWindow(size * SECOND, slide * SECOND, 0), delay * SECOND, list(_epochs(batches, size, slide, delay))
    )


def _epochs(batches: list[list[list[Row]]], size: int, slide: int, delay: int) -> list[Epoch]:
    open_groups: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    watermark, made = 0, []
    for partitions in batches:
        rows = [row for partition in partitions for row in partition]
        for time, key, value in rows:
            for start in range(time - time % slide, time - size, -slide):
                if start + size > watermark:
                    group = open_groups[start, key]
                    group[0] += value
                    group[1] += 1
        reached = max([watermark, *(time - delay for time, _, _ in rows)])
        closed = sorted(at for at in open_groups if at[0] + size <= reached)
        emits = [(*at, *open_groups.pop(at)) for at in closed]
        made.append(Epoch(partitions, watermark * SECOND, emits))
        watermark = reached
    return made


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    """Rows as the native accumulator takes them."""
    times, keys, values = zip(*rows, strict=True) if rows else ((), (), ())
    time = pa.array([time * SECOND for time in times], pa.int64()).view(pa.timestamp("us", "UTC"))
    return pa.record_batch([time, pa.array(keys, pa.int64()), pa.array(values, pa.int64())], names=["t", "k", "v"])


def groups_of(table: pa.Table) -> list[Group]:
    """The rows of a result, sorted."""
    starts = table.column(0).cast(pa.int64()).to_pylist()
    columns = [table.column(index).to_pylist() for index in (2, 3, 4)]
    return sorted((start // SECOND, *rest) for start, *rest in zip(starts, *columns, strict=True))
