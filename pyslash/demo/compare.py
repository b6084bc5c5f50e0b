"""Are two results the same rows? Exact for everything but floating-point numbers, which may differ by 1e-9 relative."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

TOLERANCE = 1e-9
EXPECTED, FOUND = 0, 1
_SIDE = "which of the two results"


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


def read_rows(output: Path) -> pa.Table:
    """The rows of a sink; the window is two columns, `window.start` and `window.end`."""
    return pa.concat_tables([pq.ParquetFile(file).read() for file in committed_files(output)]).flatten()


def differences(expected: pa.Table, found: pa.Table, keys: tuple[str, ...]) -> Iterator[str]:
    """One line for each row that only one side has, or has twice, and for each value that differs.

    Args:
        expected: as `read_rows` gives it.
        found: with the same columns.
        keys: columns that identify a row; nulls among them are equal.
    """
    if expected.column_names != found.column_names:
        yield f"columns are {found.column_names}, expected {expected.column_names}"
        return
    # A column that holds no null on one side may hold some on the other.
    schema = pa.schema([(field.name, field.type) for field in expected.schema])
    sides = [
        table.cast(schema).append_column(_SIDE, pa.array(np.full(table.num_rows, side, np.int8)))
        for side, table in ((EXPECTED, expected), (FOUND, found))
    ]
    order = [(name, "ascending") for name in (*keys, _SIDE)]
    rows = pa.concat_tables(sides).combine_chunks().sort_by(order).combine_chunks()
    side = rows[_SIDE].to_numpy()
    # A row's equal of the other side, if there is one, stands right after it.
    with_next = np.ones(max(len(side) - 1, 0), bool)
    for key in keys:
        with_next &= same(rows[key].slice(0, len(with_next)), rows[key].slice(1))
    first = np.flatnonzero(with_next & (side[:-1] == EXPECTED) & (side[1:] == FOUND))
    alone = np.ones(len(side), bool)
    alone[first] = alone[first + 1] = False
    again = np.concatenate([[False], with_next & (side[:-1] == side[1:])])
    for at in np.flatnonzero(alone | again).tolist():
        word = "twice" if again[at] else "missing" if side[at] == EXPECTED else "unexpected"
        yield f"{word}: {_row(rows, at)}"
    left, right = rows.take(first), rows.take(first + 1)
    for name in expected.column_names:
        for at in np.flatnonzero(~same(left[name], right[name])).tolist():
            was, wanted = right[name][at].as_py(), left[name][at].as_py()
            yield f"{name} is {was!r}, expected {wanted!r}: {_row(left.select(keys), at)}"


def same(left: pa.ChunkedArray, right: pa.ChunkedArray) -> np.ndarray:
    """Where two columns of one type are equal; floats within `TOLERANCE`, null equal to null, NaN to NaN.

    >>> column = lambda *values: pa.chunked_array([list(values)])
    >>> same(column(0.1 + 0.2, 1.0, None, float("nan")), column(0.3, 2.0, None, float("nan"))).tolist()
    [True, False, True, True]
    """
    equal = pc.equal(left, right)
    if pa.types.is_floating(left.type):
        limit = pc.multiply(pc.max_element_wise(pc.abs(left), pc.abs(right)), TOLERANCE)
        # An infinity is near nothing, only equal to itself.
        near = pc.and_(pc.is_finite(limit), pc.less_equal(pc.abs(pc.subtract(left, right)), limit))
        equal = pc.or_(pc.or_(equal, near), pc.and_(pc.is_nan(left), pc.is_nan(right)))
    nulls = pc.and_(pc.is_null(left), pc.is_null(right))
    return np.asarray(pc.or_(pc.fill_null(equal, False), nulls), bool)


def _row(rows: pa.Table, at: int) -> str:
    """One row in words."""
    return ", ".join(f"{name}={rows[name][at].as_py()}" for name in rows.column_names if name != _SIDE)
