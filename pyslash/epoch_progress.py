"""What each epoch did: figures for `pyslash.progress(query)` and one structured log line an epoch."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from pyslash.units import Epoch, Micros

logger = logging.getLogger("pyslash.progress")

# What merge tasks count beside the bytes of each transport: rows that they give, nanoseconds of their merges, and those
# of what takes the rows in the same tasks.
MERGED_ROWS, MERGE_NS, ABOVE_NS = "rows", "merge_ns", "above_ns"
_TIMES = {MERGE_NS: "merge_task", ABOVE_NS: "sink_task"}


Timed = Callable[[str], AbstractContextManager[None]]
"""Times a block, under the name of a step."""


@dataclass(frozen=True)
class BroughtBack:
    """How a run got its state: replicas that became their holders' own, files that were read, bytes to new replicas."""

    promotions: int = 0
    restored_files: int = 0
    replica_bytes: int = 0


@dataclass
class EpochProgress:
    """Figures of one epoch of a stateful operator. Times are milliseconds of wall clock; bytes are counted where they
    were read.

    `operator` counts from 0, each behind those below it; a query with several has as many of these an epoch.
    `groups` are distinct groups sealed by this epoch's tasks (a group seen by two tasks counts twice until merged).
    `groups_per_row` is their number over that of the rows that were not late: near 1, partial state is no smaller than
    rows, and merging late gains nothing. `bytes_shuffled` maps a transport to the bytes of rows that crossed to their
    owners through it, where rows are repartitioned.
    `folded` are blocks of the epoch that executors have folded before they were read, `folded_bytes` their bytes, and
    `folded_into_bytes` those of what they have become.
    `held_by`, of a query with several watermarks: the sources of the input that the query's is of as the epoch begins,
    and `held_ms`: how long that input's own has not risen, in this run.
    `late_by_input`, of a join: the late rows of its left and of its right input; empty of other operators, and of an
    epoch that is replayed. `partitions`: of Kafka topics, those with the most late rows in the epoch, then those
    furthest behind, at most 8. Each has its name (`partition`: `topic-number`), the `input` that reads it,
    `newest_ms`: its newest event time so far, in milliseconds since 1970; `behind_ms`: how far the newest of all is
    past it; `late_rows` of the epoch, and `late_rows_in_all` since the query started; `last_epoch`, in which it had
    rows.
    `behind`: how many records of Kafka topics there were behind it when its offsets were chosen.
    `debt`: how many records, or files, wait to be read behind newer ones (`spark.slash.backlog`), `debt_shed`: how many
    the epoch has let go, `fraction`: how much has been read of what there was to read since there has been debt.
    `sample_rate`: the share of its records that the epoch has taken (`spark.slash.shed`).
    `merged_rows` are what the operator gave; twice as many where the sink has run its result twice.
    `records_by_spark`: records of JSON, CSV and Avro that native code has left to Spark, counted at each `from_json`,
    `from_avro` and scan of files. `records_fetched`: records of Kafka topics that have come past Spark's reader.
    `merged_by` and `emit`: who merged, and how merge tasks gave the rows to Spark.
    `bytes_read` maps a transport to the bytes that merges read through it. `replayed`: the update was skipped because
    the epoch had been committed before. `recoveries`: how often the epoch began again because an agent was lost;
    `promotions` and `restored_files`: what its state came back from then, or when the query began. `replica_bytes` were
    written to standbys. `pinned_bytes` are in the arenas after the commit, `spilled_bytes` on the executors' disks: of
    all queries of the application.
    `memory` has, of each agent, `used_bytes` and `arena_bytes` of its arena, and `spilled_bytes`: of all queries of the
    application, as the agent answers a commit.
    `update_ms`, `checkpoint_ms`, `replica_ms`, `commit_ms`, `late_ms`, `merge_ms` and `sink_ms` are the driver's, one
    after the other: `late_ms` is for writing late rows (`spark.slash.late`), `merge_ms` for planning the merge, which
    tasks do within `sink_ms`, or for doing it where it is small.
    The times of tasks are added up: `update_task_ms` of the jobs that make the epoch's blocks, with reading their rows;
    `merge_task_ms` of reading blocks and merging them, by tasks or the driver; `sink_task_ms` of all else in the tasks
    that merge: Spark's plan above the operator, and the sink if no shuffle stands between.
    `agents_ms`: to ask agents whether they live, or to start some, and `restore_ms`: to bring the state back, from
    memory or from the checkpoint, both at a start and at recoveries.
    """

    epoch: Epoch
    operator: int = 0
    rows: int = 0
    late_rows: int = 0
    groups: int = 0
    groups_per_row: float = 0.0
    blocks: int = 0
    windows: int = 0
    watermark_us: Micros = Micros(0)
    held_by: str = ""
    held_ms: int = 0
    late_by_input: list[int] = field(default_factory=list)
    partitions: list[dict[str, Any]] = field(default_factory=list)
    behind: int = 0
    debt: int = 0
    debt_shed: int = 0
    fraction: float = 1.0
    sample_rate: float = 1.0
    pinned_bytes: int = 0
    spilled_bytes: int = 0
    memory: dict[str, dict[str, int]] = field(default_factory=dict)
    agents: int = 0
    merged_rows: int = 0
    ingest: str = ""
    records_by_spark: int = 0
    records_fetched: int = 0
    merged_by: str = ""
    emit: str = ""
    replayed: bool = False
    recoveries: int = 0
    promotions: int = 0
    restored_files: int = 0
    agents_ms: float = 0.0
    restore_ms: float = 0.0
    checkpoint_bytes: int = 0
    checkpoint_ms: float = 0.0
    replica_bytes: int = 0
    replica_ms: float = 0.0
    update_ms: float = 0.0
    commit_ms: float = 0.0
    late_ms: float = 0.0
    merge_ms: float = 0.0
    sink_ms: float = 0.0
    update_task_ms: float = 0.0
    merge_task_ms: float = 0.0
    sink_task_ms: float = 0.0
    bytes_read: dict[str, int] = field(default_factory=dict)
    bytes_shuffled: dict[str, int] = field(default_factory=dict)
    folded: int = 0
    folded_bytes: int = 0
    folded_into_bytes: int = 0

    def take(self, figures: Any) -> None:
        """Record what a step has come to, by the names of these figures. Of several attempts the last one counts."""
        for name, value in vars(figures).items():
            setattr(self, name, dict(value) if isinstance(value, dict) else value)

    def bring_back(self, figures: BroughtBack) -> None:
        """Record how the state came back, which may be several times in an epoch."""
        self.promotions += figures.promotions
        self.replica_bytes += figures.replica_bytes
        self.restored_files = figures.restored_files or self.restored_files

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the block's wall-clock time to `<name>_ms`."""
        begin = time.perf_counter_ns()
        try:
            yield
        finally:
            self.count_time(name, time.perf_counter_ns() - begin)

    def count_time(self, name: str, nanoseconds: int) -> None:
        """Add to `<name>_ms`."""
        setattr(self, f"{name}_ms", round(getattr(self, f"{name}_ms") + nanoseconds / 1e6, 3))

    def count_rows(self, rows: int, late_rows: int) -> None:
        """Record what came in; `groups` is known by then."""
        self.rows, self.late_rows = rows, late_rows
        self.groups_per_row = round(self.groups / (rows - late_rows), 6) if rows > late_rows else 0.0

    def count(self, transport: str, size: int) -> None:
        """Record a read."""
        self.bytes_read[transport] = self.bytes_read.get(transport, 0) + size

    def count_tasks(self, counts: dict[str, int]) -> None:
        """Record what merge tasks have counted."""
        for name, count in counts.items():
            if name == MERGED_ROWS:
                self.merged_rows += count
            elif name in _TIMES:
                self.count_time(_TIMES[name], count)
            elif count:
                self.count(name, count)


class ProgressLog:
    """The last epochs of one query."""

    def __init__(self, query_id: str, retained: int) -> None:
        self._query_id = query_id
        self._epochs: deque[EpochProgress] = deque(maxlen=retained)
        self._lock = threading.Lock()

    def add(self, progress: EpochProgress) -> None:
        """Keep an epoch's figures and log them as one JSON line."""
        with self._lock:
            self._epochs.append(progress)
        if logger.isEnabledFor(logging.INFO):
            logger.info("%s", json.dumps({"query": self._query_id, **vars(progress)}))

    def epochs(self) -> list[dict[str, Any]]:
        """Copies, oldest first."""
        with self._lock:
            return [asdict(progress) for progress in self._epochs]
