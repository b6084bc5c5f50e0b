"""Events as JSON in text files, a record a line: windows whose time goes into decoding."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eval.workloads.base import Workload, timestamps
from eval.workloads.query import Aggregation, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PIECE = 200_000  # rows that are text at a time


@dataclass(frozen=True)
class JsonEvents(Workload):
    """Records of seven fields and some 150 bytes, as in `eval.kafka`; windows of 10 s by user.

    Streams read `json/`; `rows/` has the same rows as Parquet, for the oracle.
    """

    name: ClassVar[str] = "json"
    event_time: ClassVar[str] = "event_time"

    users: int = 10_000

    def table(self, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """Columns event_time (timestamp), four strings, amount (bigint), price (double)."""
        size = len(event_time)
        users, pages = generator.integers(0, self.users, size), generator.integers(0, 997, size)
        kinds = pa.array(["view", "click", "purchase"]).take(pa.array(generator.integers(0, 3, size)))
        return pa.table(
            {
                "event_time": timestamps(event_time),
                "user_id": _named("user-", users),
                "page_id": _named("page-", pages),
                "event_type": kinds,
                "address": pa.repeat("10.0.0.1", size),
                "amount": generator.integers(0, 1000, size),
                "price": generator.integers(0, 10_000, size) / 100,
            }
        )

    @property
    def statement(self) -> Query:
        """`count(*), sum(amount)` by window and user."""
        aggregations = (Aggregation("count", "count", "*"), Aggregation("sum", "sum", "amount"))
        return Query(time="event_time", keys=("user_id",), aggregations=aggregations)

    def stream(self, spark: SparkSession, folder: Path) -> DataFrame:
        """The text files."""
        reader = spark.readStream.schema(spark.read.parquet(str(folder / "rows")).schema)
        return reader.option("maxFilesPerTrigger", self.files_per_batch).json(str(folder / "json"))

    def write_extras(self, folder: Path) -> None:
        """The rows as text."""
        (folder / "json").mkdir()
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(lambda path: _write(path, folder / "json"), (folder / "rows").iterdir()))


def _named(prefix: str, numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pc.cast(pa.array(numbers), pa.string()), "")


def _write(rows: Path, folder: Path) -> None:
    path = folder / f"{rows.stem}.json"
    with path.open("wb") as file:
        for batch in pq.ParquetFile(rows).iter_batches(_PIECE):
            file.write(_records(batch))
    modified = rows.stat().st_mtime  # Spark streams files in the order of these times
    os.utime(path, (modified, modified))


def _records(rows: pa.RecordBatch) -> bytes:
    """A line each."""
    members: list[pa.Array | str] = []
    for number, field in enumerate(rows.schema):
        column = rows.column(number)
        if pa.types.is_timestamp(field.type):
            column = pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ")
        quote = '"' if pa.types.is_string(column.type) else ""
        members += ["," if number else "{", f'"{field.name}":{quote}', pc.cast(column, pa.string()), quote]
    lines = pc.binary_join_element_wise(*members, "}\n", "")
    return "".join(lines.to_pylist()).encode()
