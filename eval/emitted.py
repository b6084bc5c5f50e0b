"""What a measured stream emits, kept by its sink so that it can be held against the oracle when the clock has stopped.

Every Spark engine has the same sink, `foreachBatch`: of rows that are equal or not it takes a digest, one aggregation a
micro-batch; rows with floating-point columns, few in every workload, it writes as they are.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from eval import oracle
from eval.digest import Digest, agree, digest, exact, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class Emitted(Protocol):
    """A sink, and what is known of its rows afterwards."""

    def add(self, result: DataFrame, batch: int) -> None:
        """`foreachBatch`'s function."""
        ...

    def agrees(self, folder: Path) -> tuple[bool, int]:
        """Whether all that was added is what `folder/oracle` has, and how many rows that has."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class EmittedDigests:
    """The digest of each micro-batch. One that is added twice counts twice."""

    def __init__(self) -> None:
        self._batches: list[tuple[int | None, Digest]] = []

    def add(self, result: DataFrame, batch: int) -> None:
        """One aggregation over the rows, by Spark."""
        self._batches.append((batch, digest(oracle.flat(result))))

    def agrees(self, folder: Path) -> tuple[bool, int]:
        """By all rows; and micro-batch by micro-batch, if the oracle is a stream, too."""
        wanted = read(folder / "oracle")
        return agree(self._batches, wanted), sum(each.rows for _, each in wanted)

    def close(self) -> None:
        """Nothing."""


class EmittedRows:
    """The rows themselves, as Parquet in a folder of their own below `parent`."""

    def __init__(self, parent: Path) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="emitted-", dir=parent)
        self._folder = Path(self._place.name) / "rows"

    def add(self, result: DataFrame, batch: int) -> None:
        """Append them."""
        oracle.flat(result).write.mode("append").parquet(str(self._folder))

    def agrees(self, folder: Path) -> tuple[bool, int]:
        """Row by row."""
        rows = oracle.expected(folder)
        return oracle.same_rows(oracle.read(self._folder), rows), rows.num_rows

    def differences(self, folder: Path, keys: tuple[str, ...], most: int) -> list[str]:
        """The first `most` rows that differ, in words."""
        return oracle.differences(oracle.read(self._folder), oracle.expected(folder), keys, most)

    def close(self) -> None:
        """Delete them."""
        self._place.cleanup()


def sink(schema: StructType, parent: Path) -> Emitted:
    """For rows of this schema."""
    return EmittedDigests() if exact(schema) else EmittedRows(parent)
