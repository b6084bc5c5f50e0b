"""The rows of a Delta table by its log and its files alone, without Delta's code and without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from eval.pipelines.replay import Row


class DeltaTableError(Exception):
    """The table uses what this reader does not know."""


def revenue(table: Path) -> Counter[Row]:
    """All rows of a table of the examples, as of its last version; none if there is no table."""
    *_, last = [[], *(files for _, files in versions(table))]
    return rows_of(table, last)


def versions(table: Path) -> Iterator[tuple[int | None, list[str]]]:
    """Of each version the micro-batch that wrote it, if one did, and the files that make up the table.

    Raises:
        DeltaTableError: rows of a file are deleted by a vector.
    """
    files: dict[str, None] = {}
    for entry in sorted((table / "_delta_log").glob("[0-9]*.json")):
        batch = None
        for action in map(json.loads, entry.read_text().splitlines()):
            if "add" in action:
                if action["add"].get("deletionVector"):
                    raise DeltaTableError(f"{entry} has a deletion vector")
                files[action["add"]["path"]] = None
            elif "remove" in action:
                files.pop(action["remove"]["path"], None)
            elif "txn" in action:
                batch = action["txn"]["version"]
        yield batch, list(files)


def rows_of(table: Path, files: list[str]) -> Counter[Row]:
    """The rows of some files of a table of the examples."""
    found: Counter[Row] = Counter()
    for file in files:
        rows = pq.ParquetFile(table / unquote(file)).read()
        start_ms = rows["window_start"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
        columns = [start_ms, *(rows[name] for name in ("shop", "orders", "cents"))]
        found.update(zip(*(column.to_pylist() for column in columns), strict=True))
    return found
