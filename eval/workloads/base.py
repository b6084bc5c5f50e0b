"""What every workload has: rows cut into files by micro-batch, event time that advances, one windowed query."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eval.workloads.query import Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EPOCH_US = 1_700_000_000_000_000  # event time of the first row, a multiple of every window used here
DISORDER_US = 1_000_000  # a row is at most this much ahead of its place in event-time order
WATERMARK = "2 seconds"  # more than the disorder, so that no row is late unless it is to be
WATERMARK_MS = 2_000
SAMPLE_ROWS = 1_000_000
SAMPLE_WORK = 2_000_000  # rows, each counted for every window that it is in, as Spark's state stores do it
SAMPLE_SECONDS = 40.0  # some windows of ten seconds, and the watermark's delay
WARM_BATCHES = 8
LATE_BATCHES = 4.0  # a late row comes at most so many micro-batches after its time: half of them after two watermarks
LAYOUT = 4  # of the files; another number makes them anew


@dataclass(frozen=True)
class Workload(ABC):
    """Parameters of a workload. Equal parameters make equal rows, on every machine.

    `rows` are spread evenly over `span_s` seconds of event time and over `batches` micro-batches. `late`: the share of
    them that come after their time, by up to `LATE_BATCHES` micro-batches and a window.
    """

    name: ClassVar[str]
    event_time: ClassVar[str]
    pace: ClassVar[float | None] = 100_000.0  # rows a second of event time, unless a span is given; None: a fixed span

    rows: int = 20_000_000
    batches: int = 8
    span_s: float = 200.0
    seed: int = 1
    late: float = 0.0

    @property
    def output_mode(self) -> str:
        """Of the query, as Spark calls it."""
        return "append"

    @property
    def is_judged_by_stream(self) -> bool:
        """Whether what is emitted depends on the micro-batches, or a batch query cannot be asked for it."""
        return self.has_state and (self.late > 0 or self.output_mode != "append" or self.statement.gap_s > 0)

    @property
    def query_name(self) -> str:
        """What tells the query from others: an engine that has run it is warm."""
        return self.name

    @property
    def rows_of(self) -> Self:
        """The workload whose files it has: another one, where only what is asked of the rows differs."""
        return self

    @property
    def reads(self) -> int:
        """How often the query reads a row."""
        return 1

    @property
    def has_state(self) -> bool:
        """Whether the query has any."""
        return self.statement.windowed

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns of the result that tell its rows apart."""
        return self.statement.identity

    @property
    def longest_window_s(self) -> int:
        """Seconds of the query's longest window."""
        return self.statement.window_s

    @property
    def windows_a_row(self) -> int:
        """How many windows a row is in."""
        return self.statement.window_s // self.statement.slide_s

    @abstractmethod
    def table(self, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """Rows for these event times (int64, microseconds)."""

    def rows_from(self, begin: int, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """`table`, for workloads whose rows depend on the number of the first one."""
        return self.table(generator, event_time)

    @property
    @abstractmethod
    def statement(self) -> Query:
        """What is asked of the rows."""

    def query(self, spark: SparkSession, rows: DataFrame, folder: Path) -> DataFrame:
        """`statement` over `rows`, a stream or a batch of them."""
        return self.statement.on_spark(spark, rows, folder, WATERMARK)

    def below(self, spark: SparkSession, rows: DataFrame, folder: Path) -> DataFrame:
        """The rows that `query` aggregates, with the columns that it needs."""
        return self.statement.below_on_spark(spark, rows, folder, WATERMARK).select(*self.statement.inputs)

    def write_extras(self, folder: Path) -> None:  # noqa: B027 - most need nothing
        """Write what the query needs beside the rows."""

    def stream(self, spark: SparkSession, folder: Path) -> DataFrame:
        """The rows as a stream, whose micro-batches are always the same."""
        source = str(folder / "rows")
        reader = spark.readStream.schema(spark.read.parquet(source).schema)
        return reader.option("maxFilesPerTrigger", self.files_per_batch).parquet(source)

    @property
    def files_per_batch(self) -> int:
        """Files in a micro-batch: a few, so that its scan is parallel; one for tiny batches."""
        return max(1, min(4, self.rows // self.batches // 10_000))

    def bounds(self, number: int, files: int) -> tuple[int, int]:
        """The rows of a file: the first one and the one behind the last."""
        begin, end = (self.rows * n // files for n in (number, number + 1))
        return begin, end

    def sample(self) -> Self:
        """The same workload, shorter, in fewer micro-batches; still long enough for windows to close in it."""
        batches = max(4, self.batches // 5)
        most = min(SAMPLE_ROWS, SAMPLE_WORK // self.windows_a_row)
        rows = max(min(self.rows // 5, most), batches)
        span_s = max(self.span_s / 5, SAMPLE_SECONDS, 2.0 * self.longest_window_s)
        return replace(self, rows=rows, batches=batches, span_s=span_s)

    def warm_up(self) -> Self:
        """The sample in many micro-batches: it is their number that has a JVM compile what plans them."""
        sample = self.sample()
        return replace(sample, batches=max(sample.batches, WARM_BATCHES))

    def first(self, batches: int) -> Self:
        """The first micro-batches alone: for an engine whose rate is steady and low. The same rows, if they divide."""
        return self if batches >= self.batches else self.lasting(batches)

    def lasting(self, batches: int) -> Self:
        """As many micro-batches of the same size and pace."""
        share = batches / self.batches
        return replace(self, rows=round(self.rows * share), batches=batches, span_s=self.span_s * share)

    def describe(self) -> dict[str, Any]:
        """Name and parameters, for reports."""
        return {"name": self.name, **asdict(self)}

    def generate(self, cache: Path) -> Path:
        """The folder with the rows below `cache`, made now unless it is there: `rows/*.parquet` and the extras."""
        parameters = json.dumps(self.describe() | {"layout": LAYOUT}, sort_keys=True)
        folder = cache / f"{self.name}-{hashlib.sha256(parameters.encode()).hexdigest()[:12]}"
        if folder.exists():
            return folder
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        self.write_rows(unfinished / "rows", cache)
        self.write_extras(unfinished)
        (unfinished / "parameters.json").write_text(parameters)
        unfinished.rename(folder)
        return folder

    def write_rows(self, folder: Path, cache: Path) -> None:
        """Write the files with all rows, or links to those of the workload that has the same."""
        if self.rows_of != self:
            shutil.copytree(self.rows_of.generate(cache) / "rows", folder, copy_function=os.link)
            return
        folder.mkdir(parents=True)
        files = self.batches * self.files_per_batch
        with ThreadPoolExecutor(os.cpu_count()) as threads:  # numpy and Arrow let go of the interpreter
            list(threads.map(lambda number: self._write_file(folder, number, files), range(files)))

    def times(self, generator: np.random.Generator, begin: int, end: int) -> np.ndarray:
        """The event times (int64, microseconds) of the rows from `begin` to `end`, none of them late."""
        place = np.arange(begin, end, dtype=np.float64) * (self.span_s * 1e6 / self.rows)
        # The disorder is bounded by the spacing of long streams only, so short ones keep their order of batches.
        disorder = min(DISORDER_US, self.span_s * 1e6 / self.batches / 4)
        return EPOCH_US + (place + generator.random(end - begin) * disorder).astype(np.int64)

    def _write_file(self, folder: Path, number: int, files: int) -> None:
        begin, end = self.bounds(number, files)
        generator = np.random.default_rng([self.seed, number])
        event_time = self.times(generator, begin, end)
        if self.late:
            most = self.span_s / self.batches * LATE_BATCHES + self.longest_window_s
            by = generator.random(end - begin) * (most * 1e6)
            event_time -= np.where(generator.random(end - begin) < self.late, by, 0.0).astype(np.int64)
        path = folder / f"rows-{number:06d}.parquet"
        pq.write_table(self.rows_from(begin, generator, event_time), path)
        modified = 1_400_000_000 + number  # Spark streams files in the order of these times
        os.utime(path, (modified, modified))


def timestamps(event_time: np.ndarray) -> pa.Array:
    """Microseconds since 1970 as Spark's TimestampType has them."""
    return pa.array(event_time).cast(pa.timestamp("us", tz="UTC"))
