"""What a run reads, and Spark's rule of what it must give: the oracle is a dictionary."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from pyslash.plan.window import TimeWindow

SECOND = 1_000_000
Row = tuple[int, int, int]  # event time (seconds), key, value
Group = tuple[int, int, int, int]  # window's start (seconds), key, sum, count
Partition = list[Row]


@dataclass(frozen=True)
class Workload:
    """A query, and what arrives at its source: the rows of each partition. An offset is a number of arrivals."""

    window: TimeWindow
    delay_us: int
    arrivals: list[list[Partition]]

    @property
    def plan(self) -> str:
        """Key, sum and count."""
        window = f"window {self.window.size_us} {self.window.slide_us} 0"
        return (
            f"pyslash-plan 1\n{window}\ncolumn int64 1\ncolumn int64 1\nkey 1\naggregate sum 2 1\naggregate count - 1\n"
        )

    def partitions(self, start: int, end: int, version: int) -> list[Partition]:
        """The rows between two offsets, below the watermark operator of the query in this version of it."""
        arrived = self.arrivals[start:end]
        of_each: list[Partition] = [[] for _ in range(max(map(len, arrived), default=0))]
        for partitions in arrived:
            for index, rows in enumerate(partitions):
                of_each[index] += [row for row in rows if is_kept(row, version)]
        return of_each


def is_kept(row: Row, version: int) -> bool:
    """Each repair of the query filters more of its rows."""
    return row[2] % 10 >= version


def workload(number: int) -> Workload:
    """The input of a schedule: out of order, late rows among them; the last but one row closes every window before."""
    chance = random.Random(number)
    size, slide = chance.choice([(10, 10), (10, 5), (15, 5)])
    delay, step = chance.choice([0, 5, 20]), chance.choice([3, 7])
    arrivals = [
        [
            [
                (1000 + step * arrival + chance.randint(-40, 12), chance.randrange(3), chance.randrange(100))
                for _ in range(chance.randint(0, 4))
            ]
            for _ in range(chance.randint(1, 3))
        ]
        for arrival in range(chance.randint(3, 6))
    ]
    arrivals += [[[(5000, 0, 9)]], [[(5001, 0, 9)]]]
    window = TimeWindow(size * SECOND, slide * SECOND, 0)
    return Workload(window, delay * SECOND, arrivals)


@dataclass(frozen=True)
class State:
    """The operator's state between two micro-batches: open groups, and how far windows have been emitted."""

    groups: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    emitted_us: int = 0


@dataclass(frozen=True)
class Step:
    """What a micro-batch gives: the state after it, its rows, how many of its input were late, and its event times."""

    state: State
    emits: list[Group]
    late_rows: int
    times: list[int]  # seconds


def step(query: Workload, before: State, rows: Iterable[Row], late_us: int, eviction_us: int) -> Step:
    """Spark's rule: rows of windows that end at or before `late_us` are dropped, and then those windows are emitted
    and forgotten that end at or before `eviction_us`.
    """
    rows = list(rows)
    times = [time for time, _, _ in rows]
    size, slide = query.window.size_us // SECOND, query.window.slide_us // SECOND
    groups, late_rows = dict(before.groups), 0
    for time, key, value in rows:
        starts = [
            start for start in range(time - time % slide, time - size, -slide) if (start + size) * SECOND > late_us
        ]
        late_rows += not starts
        for start in starts:
            total, count = groups.get((start, key), (0, 0))
            groups[start, key] = total + value, count + 1
    closed = sorted(at for at in groups if (at[0] + size) * SECOND <= eviction_us)
    emits = [(*at, *groups.pop(at)) for at in closed]
    return Step(State(groups, max(before.emitted_us, eviction_us)), emits, late_rows, times)


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
