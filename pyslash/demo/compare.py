"""Are two results the same rows? Exact for everything but floating-point numbers, which may differ by 1e-9 relative."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

TOLERANCE = 1e-9

Key = tuple[Any, ...]
Row = dict[str, Any]


def committed_files(output: Path) -> list[Path]:
    """The files that the log of a streaming Parquet sink calls committed; others are leftovers of failed attempts."""
    log = output / "_spark_metadata"
    compacted = sorted(int(entry.name.split(".")[0]) for entry in log.glob("*.compact"))
    first = compacted[-1] if compacted else -1
    entries = [log / f"{first}.compact"] if compacted else []
    entries += sorted((e for e in log.iterdir() if e.name.isdigit() and int(e.name) > first), key=lambda e: int(e.name))
    files = []
    for entry in entries:
        version, *records = entry.read_text().splitlines()
        if version != "v1":
            raise ValueError(f"{entry}: sink log of version {version!r}, wanted v1")
        files += [Path(unquote(urlparse(json.loads(record)["path"]).path)) for record in records]
    return files


def read_rows(output: Path, keys: tuple[str, ...]) -> dict[Key, Row]:
    """The rows of a sink by the values of `keys`.

    Raises:
        ValueError: two rows have the same key.
    """
    rows: dict[Key, Row] = {}
    for file in committed_files(output):
        for row in pq.ParquetFile(file).read().to_pylist():
            key = tuple(tuple(row[k].values()) if isinstance(row[k], dict) else row[k] for k in keys)
            if key in rows:
                raise ValueError(f"{output}: two rows of {key}")
            rows[key] = row
    return rows


def differences(expected: dict[Key, Row], found: dict[Key, Row]) -> Iterator[str]:
    """One line for each row that only one side has, and for each value that differs."""
    for key in expected.keys() - found.keys():
        yield f"missing: {expected[key]}"
    for key in found.keys() - expected.keys():
        yield f"unexpected: {found[key]}"
    for key in expected.keys() & found.keys():
        for column in expected[key].keys() | found[key].keys():
            left, right = expected[key].get(column), found[key].get(column)
            if not same(left, right):
                yield f"{key}: {column} is {right!r}, expected {left!r}"


def same(left: Any, right: Any) -> bool:
    """Equality of two values; floats within `TOLERANCE`, NaN equal to NaN.

    >>> same(0.1 + 0.2, 0.3), same(1, 2), same(None, 0), same(float("nan"), float("nan"))
    (True, False, False, True)
    """
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or math.isclose(left, right, rel_tol=TOLERANCE)
    return bool(left == right)
