"""Events as JSON or CSV in text files, a record a line: windows whose time goes into decoding."""

from __future__ import annotations

import os
from abc import abstractmethod
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
class TextEvents(Workload):
    """Records of seven fields, as in `eval.kafka`; windows of 10 s by user.

    Streams read a folder named after the workload; `rows/` has the same rows as Parquet, for the oracle.
    """

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
        return reader.option("maxFilesPerTrigger", self.files_per_batch).load(str(folder / self.name), format=self.name)

    @abstractmethod
    def lines(self, names: list[str], columns: list[pa.Array]) -> pa.Array:
        """The records, whose columns are text (times in ISO 8601), with what ends a line."""

    def write_extras(self, folder: Path) -> None:
        """The rows as text."""
        (folder / self.name).mkdir()
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(lambda path: self._write(path, folder / self.name), (folder / "rows").iterdir()))

    def _write(self, rows: Path, folder: Path) -> None:
        path = folder / f"{rows.stem}.{self.name}"
        with path.open("wb") as file:
            for batch in pq.ParquetFile(rows).iter_batches(_PIECE):
                lines = self.lines(batch.schema.names, [_text(column) for column in batch.columns])
                file.write("".join(lines.to_pylist()).encode())
        modified = rows.stat().st_mtime  # Spark streams files in the order of these times
        os.utime(path, (modified, modified))


class JsonEvents(TextEvents):
    """Some 150 bytes a record."""

    name: ClassVar[str] = "json"

    def lines(self, names: list[str], columns: list[pa.Array]) -> pa.Array:
        """Objects."""
        members: list[pa.Array | str] = []
        for number, (name, column) in enumerate(zip(names, columns, strict=True)):
            quote = "" if name in ("amount", "price") else '"'
            members += ["," if number else "{", f'"{name}":{quote}', column, quote]
        return pc.binary_join_element_wise(*members, "}\n", "")


class CsvEvents(TextEvents):
    """Some 70 bytes a record."""

    name: ClassVar[str] = "csv"

    def lines(self, names: list[str], columns: list[pa.Array]) -> pa.Array:
        """Fields without quotes."""
        del names  # there is no header
        return pc.binary_join_element_wise(pc.binary_join_element_wise(*columns, ","), "\n", "")


def _named(prefix: str, numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pc.cast(pa.array(numbers), pa.string()), "")


def _text(column: pa.Array) -> pa.Array:
    return pc.cast(
        pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ") if pa.types.is_timestamp(column.type) else column, pa.string()
    )
