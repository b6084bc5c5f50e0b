"""The update task on the native path: it reads its share of the micro-batch's Parquet files itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyslash.ingest.block_publisher import BlockPublisher
from pyslash.ingest.only_spark import OnlySpark
from pyslash.ingest.parquet_scan import ParquetReader, ParquetScan
from pyslash.spark.scan_figures import ScanFigures


class Updated(NamedTuple):
    """What a task has published and read."""

    receipt: bytes
    figures: ScanFigures


@dataclass(frozen=True)
class ParquetUpdate:
    """A function of the number of one of the scan's partitions, for a task to run."""

    publisher: BlockPublisher
    scan: ParquetScan

    def __call__(self, partition: int) -> Updated | str:
        """Runs in the executor.

        Returns:
            The result, or the reason why Spark has to read the files. The update is then repeated on another path, and
            the blocks that tasks have published are freed like those of any late attempt.

        Raises:
            AgentStartError, ArenaFullError, …: as `BlockPublisher.published`.
        """
        reader = ParquetReader(self.scan)
        try:
            receipt = self.publisher.receipt(reader.batches(self.scan.partitions[partition]))
        except OnlySpark as only:
            return str(only)
        return Updated(receipt, reader.figures)
