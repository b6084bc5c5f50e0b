"""A micro-batch as Spark has planned it: `SparkBatch` and `OperatorCut` of the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyslash.emit import merge
from pyslash.emit.column_merge import HOME_GROUPS, HOMES
from pyslash.emit.fetch import equal_cuts
from pyslash.emit.merge import PREFIXES, MergeRequest
from pyslash.epoch_progress import ABOVE_NS, MERGE_NS
from pyslash.spark.execution import InputWatermark, LoggedOffsets, entry_of, logged_offsets
from tests.model.files import ControlFiles
from tests.model.rows import SECOND, Group, Partition, Row, Step, groups_of, step
from tests.model.update import QUERY
from tests.model.world import Injected, Violation

if TYPE_CHECKING:
    from tests.model.spark import Query
    from tests.model.world import Driver

CHECKPOINT = "model:/checkpoint"


@dataclass(frozen=True)
class Entry:
    """An entry of Spark's offset log: the batch ends before offset `end`; times are of its metadata."""

    start: int
    end: int
    watermark_us: int
    timestamp_ms: int

    def encode(self) -> bytes:
        """As Spark writes it."""
        metadata = {"batchWatermarkMs": self.watermark_us // 1000, "batchTimestampMs": self.timestamp_ms}
        return f"v1\n{json.dumps(metadata)}\n{json.dumps({'arrivals': self.end})}".encode()


@dataclass(frozen=True)
class Frame:
    """A DataFrame: its rows are made when somebody asks, and each time again."""

    rows: Callable[[], list[Group]]
    by_spark: bool = False  # Spark's own operator makes them


class Session:
    """A SparkSession, as much as a merge in tasks needs of it."""

    defaultParallelism = 2
    pythonExec = "python3"

    @property
    def sparkContext(self) -> Session:
        return self


class TaskMerge:
    """In the place of `ColumnMerge`: tasks that merge ranges of prefixes as the driver does."""

    def __init__(self, session: Session, reading: Any) -> None:
        """Of one query."""

    def rows(self, session: Session, request: MergeRequest, schema: Any, tasks: int, *_: Any) -> Frame:
        """They are merged when somebody asks."""
        cuts = equal_cuts((0, PREFIXES), tasks)
        return Frame(lambda: sorted(group for cut in cuts for group in self._task(request, *cut)))

    def new_counts(self) -> dict[str, int]:
        """No time passes."""
        return {MERGE_NS: 0, ABOVE_NS: 0, HOMES: 0, HOME_GROUPS: 0}

    def close(self) -> None:
        """Nobody asks."""

    def forget(self) -> None:
        """Nothing is kept."""

    @staticmethod
    def _task(request: MergeRequest, prefix_lo: int, prefix_hi: int) -> list[Group]:
        """Of its attempts the first that ends well."""
        for _ in range(2):
            try:
                batches = list(merge.merge(request, prefix_lo, prefix_hi, lambda *_: None))
            except Exception as error:  # whatever it is, it reaches the driver as Spark's failure of the job
                last = str(error)
            else:
                return groups_of(pa.Table.from_batches(batches)) if batches else []
        raise Injected(f"a merge task failed: {last}")


class EventTimes:
    """`EventTimeWatermarkExec` with its accumulator; times are milliseconds."""

    def __init__(self) -> None:
        self.stats = Stats()

    def add(self, rows: list[Row]) -> None:
        """A task has ended well: what it has counted arrives."""
        for time, _, _ in rows:
            self.stats.merge(Stats(time * 1000, time * 1000, time * 1000, 1))


class Stats:
    """`EventTimeStats`."""

    def __init__(self, greatest: int = -(1 << 62), least: int = 1 << 62, mean: float = 0.0, count: int = 0) -> None:
        self._greatest, self._least, self._mean, self._count = greatest, least, mean, count

    def count(self) -> int:
        return self._count

    def min(self) -> int:
        return self._least

    def max(self) -> int:
        return self._greatest

    def avg(self) -> float:
        return self._mean

    def merge(self, other: Stats) -> None:
        self._greatest, self._least = max(self._greatest, other._greatest), min(self._least, other._least)
        self._count += other._count
        self._mean += (other._mean - self._mean) * other._count / self._count if self._count else 0.0


class Cut:
    """`OperatorCut`."""

    def __init__(self, batch: MicroBatch) -> None:
        self._batch = batch
        self.late_us, self.eviction_us = batch.late_us, batch.entry.watermark_us
        self.is_without_rows = batch.entry.start == batch.entry.end
        self.times = EventTimes()
        self.late_rows = 0  # native code counts them
        self.collects_times = True

    def begin(self, epoch: int, evicted_us: int, columns: str) -> None:
        """Its rows are the same in any epoch."""

    def reset_counts(self) -> None:
        self.times.stats = Stats()

    def event_times(self) -> list[tuple[int, int, int, float]]:
        stats = self.times.stats
        return [(stats.count(), stats.min(), stats.max(), stats.avg())]

    def add_event_times(self, watermark: int, times: tuple[int, int, int, float]) -> None:
        count, least, greatest, mean = times
        assert watermark == 0
        self.times.stats.merge(Stats(greatest, least, mean, count))

    def count(self, **metrics: int) -> None:
        """Spark's metrics of the operator. Groups that are late for some of their windows count for each of those."""
        late, told = self._batch.due.late_rows, metrics["numRowsDroppedByWatermark"]
        if told < late or (told > late and self._batch.query.workload.window.overlap == 1):
            raise Violation(f"{self._batch} reports other late rows than {late}: {metrics}")


@dataclass(frozen=True)
class MicroBatch:
    """`SparkBatch`: a batch of one driver, by one version of the query, with the entry that this driver knows."""

    query: Query
    driver: Driver
    number: int
    entry: Entry
    late_us: int
    version: int
    query_id = QUERY
    run_id = str(QUERY)
    checkpoint = CHECKPOINT
    is_active = True
    session = Session()

    def is_stopped_by(self, error: BaseException) -> bool:
        return False

    @property
    def backlog(self) -> None:
        """Its source is read in order."""

    def took(self, milliseconds: float) -> None:
        """Its source does not care."""

    def records_behind(self) -> int:
        """It reads no topics."""
        return -1

    def input_watermarks(self) -> list[InputWatermark]:
        return []

    def __str__(self) -> str:
        return f"epoch {self.number} (offsets {self.entry.start} to {self.entry.end}, version {self.version})"

    @cached_property
    def cut(self) -> Cut:
        return Cut(self)

    @cached_property
    def partitions(self) -> list[Partition]:
        return self.query.workload.partitions(self.entry.start, self.entry.end, self.version)

    @cached_property
    def due(self) -> Step:
        """What Spark's own operator would give, on the state as of the batch that was finished before this one."""
        rows = (row for rows in self.partitions for row in rows)
        before = self.query.states[self.number - 1]
        return step(self.query.workload, before, rows, self.late_us, self.entry.watermark_us)

    def on_spark(self) -> Frame:
        """The batch as the query's own plan, state store and all."""

        def rows() -> list[Group]:
            self.cut.reset_counts()
            for rows in self.partitions:
                self.cut.times.add(rows)
            return self.due.emits

        return Frame(rows, by_spark=True)

    def check_ended(self) -> int:
        """The watermark as Spark knows it once the batch has run.

        Raises:
            Violation: it is not that of the batch's rows.
        """
        stats, times = self.cut.times.stats, self.due.times
        if (stats.count(), stats.max() if times else 0) != (len(times), max(times, default=0) * 1000):
            raise Violation(f"{self}: Spark knows {stats.count()} event times up to {stats.max()}, of {times}")
        reached = max(times, default=0) * SECOND - self.query.workload.delay_us
        return max(self.entry.watermark_us, reached)

    # What is asked of `SparkBatch` besides.

    def forget_counts(self) -> None:
        """It counts nothing."""

    def of(self, place: int) -> MicroBatch:
        """Its only operator."""
        return self

    def over(self, merged: Frame) -> Frame:
        """No plan but that of the rows."""
        return merged

    def result(self, merged: Frame) -> Frame:
        """No projection above the aggregation."""
        return merged

    def offsets(self, epoch: int) -> LoggedOffsets:
        return logged_offsets(self._log, epoch)

    def has_offsets(self, epoch: int) -> bool:
        return entry_of(self._log, epoch) is not None

    def has_gone_on(self, epoch: int) -> bool:
        return self.has_offsets(epoch + 1) or epoch in self.query.commits

    @property
    def _log(self) -> ControlFiles:
        return self.query.files(None, CHECKPOINT, "offsets")
