"""Rows in three numbers that cost little to make and tell whether two results have the same rows.

How many rows there are, and the sums of the two halves of a 64-bit hash over all columns of a row. Sums do not depend
on the order of rows; a row that is missing, doubled, or changed in any column moves them (or is missed once in 2^64
times). They cannot tell whether floating-point values are near each other: rows with any have no digest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

FILE = "digests.json"


@dataclass(frozen=True)
class Digest:
    """Number of rows, and the sums of the lower and of the upper 32 bits of their hashes."""

    rows: int = 0
    low: int = 0
    high: int = 0

    def __add__(self, other: Digest) -> Digest:
        return Digest(self.rows + other.rows, self.low + other.low, self.high + other.high)


# Those of micro-batches, by their ids; or one of all rows, by None.
Digests = list[tuple[int | None, Digest]]


def exact(schema: StructType) -> bool:
    """Whether rows of this schema are equal or not, with nothing between."""
    return not {field.dataType.typeName() for field in schema} & {"float", "double"}


def digest(rows: DataFrame) -> Digest:
    """Of all rows, in one pass."""
    from pyspark.sql import functions as F

    columns = [F.col(f"`{name}`") for name in rows.columns]
    # The hash passes over nulls: (null, 1) would be (1, null), if it were not told which columns are null.
    nulls = [F.when(column.isNull(), 1 << place).otherwise(0) for place, column in enumerate(columns)]
    row = F.xxhash64(*columns, sum(nulls[1:], nulls[0]))
    halves = row.bitwiseAND(0xFFFFFFFF), F.shiftrightunsigned(row, 32)
    found = rows.agg(F.count("*"), *[F.coalesce(F.sum(half), F.lit(0)) for half in halves]).collect()[0]
    return Digest(*found)


def by_batch(digests: Digests) -> dict[int | None, Digest]:
    """The sum for each micro-batch; those without rows are as if they were not there."""
    sums: dict[int | None, Digest] = {}
    for batch, each in digests:
        sums[batch] = sums.get(batch, Digest()) + each
    return {batch: each for batch, each in sums.items() if each != Digest()}


def agree(found: Digests, wanted: Digests) -> bool:
    """Whether they are of the same rows; and of the same micro-batches, where `wanted` tells them apart."""
    if any(batch is None for batch, _ in wanted):
        found = [(None, each) for _, each in found]
    return by_batch(found) == by_batch(wanted)


def write(folder: Path, digests: Iterable[tuple[int | None, Digest]]) -> None:
    """Into a folder, beside the rows."""
    (folder / FILE).write_text(json.dumps([[batch, *astuple(each)] for batch, each in digests]))


def read(folder: Path) -> Digests:
    """What `write` wrote."""
    return [(batch, Digest(*numbers)) for batch, *numbers in json.loads((folder / FILE).read_text())]
