"""The update task on the native path: it reads its share of the micro-batch's Parquet files itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

import pyarrow as pa

from pyslash.tasks.arrow_update import ArrowUpdate
from pyslash.tasks.parquet_scan import OnlySpark, ParquetReader, ParquetScan, ScanFigures

SCHEMA = "receipt binary, figures string, reason string"


@dataclass(frozen=True)
class ParquetUpdate:
    """A function for `mapInArrow` over the numbers of the scan's partitions, one a task; `SCHEMA` is what it gives.

    A row is a receipt and the figures of its task, or the reason why Spark is to read the files; the update is then to
    be done anew, in another way, and what tasks have published is freed as any late attempt's.
    """

    update: ArrowUpdate
    scan: ParquetScan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs in the executor.

        Raises:
            AgentStartError, ArenaFullError, …: as `ArrowUpdate`.
        """
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        splits = [split for number in numbers for split in self.scan.partitions[number]]
        reader = ParquetReader(self.scan)
        receipt = reason = None
        try:
            receipt = self.update.receipt(reader.batches(splits))
        except OnlySpark as only:
            reason = str(only)
        yield pa.record_batch(
            [
                pa.array([receipt], pa.binary()),
                pa.array([json.dumps(asdict(reader.figures))], pa.string()),
                pa.array([reason], pa.string()),
            ],
            names=["receipt", "figures", "reason"],
        )


def merged(figures: Iterable[str]) -> ScanFigures:
    """The figures of all tasks together."""
    total = ScanFigures()
    for text in figures:
        total.merge(ScanFigures(**json.loads(text)))
    return total
