"""A query that small files come to at a steady pace, and how long its micro-batches take."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from eval.bars import Bar
from eval.steady import Entry, bounds, executed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

A_FILE = 1_000  # rows
INTERVAL_SECONDS = 0.25
WARM_SECONDS = 15.0
DRAIN_SECONDS = 300.0
LOOK_SECONDS = 0.2
LEAST_BATCHES = 100  # below, a percentile of 99 is the longest of them


class Trickle:
    """Files of `rows(number)` in a folder: what there is at first, and then one after the other, until it is stopped.

    Spark archives what it has read, so that a listing is as short at the end as at the beginning.
    """

    def __init__(self, folder: Path, rows: Callable[[int], pa.Table]) -> None:
        self._source, self._archive = folder / "rows", folder / "archive"
        self._source.mkdir(parents=True)
        self._rows = rows
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trickle", daemon=True)
        self._error: Exception | None = None
        self.files = 0
        self.written_rows = 0

    def stream(self, spark: SparkSession) -> DataFrame:
        """The rows as they come."""
        reader = spark.readStream.schema("ts timestamp, key bigint, value bigint").option("cleanSource", "archive")
        return reader.option("sourceArchiveDir", str(self._archive)).parquet(str(self._source))

    @property
    def folders(self) -> list[str]:
        """Where all rows are once the query has ended."""
        return [str(folder) for folder in (self._source, self._archive) if any(folder.rglob("*.parquet"))]

    def add(self, rows: pa.Table) -> None:
        """One more file."""
        path = self._source / f"{self.files:06d}.parquet"
        hidden = path.with_name("." + path.name)
        pq.write_table(rows, hidden)
        hidden.rename(path)
        self.files += 1
        self.written_rows += len(rows)

    def start(self) -> None:
        """From now on a file comes every so often."""
        self._thread.start()

    def stop(self) -> None:
        """No further file comes.

        Raises:
            OSError: one could not be written.
        """
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        begun = time.monotonic()
        number = 0
        try:
            while not self._stopped.wait(max(0.0, begun + number * INTERVAL_SECONDS - time.monotonic())):
                self.add(self._rows(number))
                number += 1
        except Exception as error:
            self._error = error


@contextmanager
def running(writer: DataStreamWriter, checkpoint: Path, trickle: Trickle) -> Iterator[StreamingQuery]:
    """The query, with what there is in its state, warm, and with more files coming; both end with the block."""
    query = writer.outputMode("update").option("checkpointLocation", str(checkpoint)).start()
    try:
        drained(query, trickle)
        trickle.start()
        watched(query, WARM_SECONDS)
        yield query
    finally:
        try:
            trickle.stop()
        finally:
            query.stop()


def watched(query: StreamingQuery, seconds: float) -> tuple[float, float]:
    """Let it run so long: from when to when, in seconds since 1970.

    Raises:
        RuntimeError: it has ended.
    """
    began = time.time()
    if query.awaitTermination(seconds):
        raise RuntimeError(f"the query has ended: {query.exception()}")
    return began, time.time()


def drained(query: StreamingQuery, trickle: Trickle) -> None:
    """Until it has read every row.

    Raises:
        RuntimeError: it has ended, or has read more rows than there are.
        TimeoutError: it has not.
    """
    await_that(query, lambda: read_rows(query) >= trickle.written_rows, f"read {trickle.written_rows} rows")
    if read_rows(query) > trickle.written_rows:
        raise RuntimeError(f"the query read {read_rows(query)} rows of {trickle.written_rows}")


def await_that(query: StreamingQuery, is_so: Callable[[], bool], what: str) -> None:
    """Until the query has done something.

    Raises:
        RuntimeError: it has ended.
        TimeoutError: it has not done it for minutes.
    """
    deadline = time.monotonic() + DRAIN_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the query has not {what} within {DRAIN_SECONDS:.0f} s")
        watched(query, LOOK_SECONDS)


def read_rows(query: StreamingQuery) -> int:
    """What it has reported so far."""
    return sum(entry["numInputRows"] for entry in query.recentProgress)


def micro_batches(entries: Sequence[Entry], began: float, ended: float) -> dict[str, Any]:
    """Milliseconds of the micro-batches with rows that ran in part or as a whole in that time."""
    took = []
    for entry in executed(entries):
        begin, end = bounds([entry])
        if entry["numInputRows"] and begin < ended and end > began:
            took.append(int(entry["durationMs"]["triggerExecution"]))
    if not took:
        raise RuntimeError("the query had no micro-batch meanwhile")
    most = max(took)
    return {"batches": len(took), "p50_ms": percentile(took, 50), "p99_ms": percentile(took, 99), "most_ms": most}


def percentile(values: Sequence[int], percent: int) -> int:
    """The least value that is at least as large as so many of them.

    >>> percentile(range(1, 201), 99), percentile([7, 5], 50), percentile([7, 5], 99)
    (198, 5, 7)
    """
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def p99_bar(what: str, before: dict[str, Any], meanwhile: dict[str, Any], most: float) -> Bar:
    """How much longer the longest micro-batches take; not measured if there were too few."""
    ratio = meanwhile["p99_ms"] / before["p99_ms"]
    enough = min(before["batches"], meanwhile["batches"]) >= LEAST_BATCHES
    return Bar(what, f"{ratio:.2f}", f"<= {most:g}", ratio <= most if enough else None)


def batches_table(phases: dict[str, dict[str, Any]]) -> str:
    """A line for each time in which micro-batches were looked at."""
    lines = [f"{'the query, ms of its micro-batches':52}{'number':>8}{'p50':>8}{'p99':>8}{'longest':>9}"]
    lines += [
        f"  {name:50}{one['batches']:8}{one['p50_ms']:8}{one['p99_ms']:8}{one['most_ms']:9}"
        for name, one in phases.items()
    ]
    return "\n".join(lines)
