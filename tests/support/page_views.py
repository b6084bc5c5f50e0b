"""Input of the jobs on views of pages in `examples/`, and what their sinks of files have got."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.stream import in_order, seconds

SCHEMA = pa.schema([("viewed_at", pa.timestamp("us", "UTC")), ("page", pa.string()), ("seconds", pa.int64())])
FILES = 4


def write_views(folder: Path) -> None:
    """Of each ten minutes a file, which has a late row too; the last file closes the windows of the others."""
    folder.mkdir()
    for number in range(FILES):
        minutes = [10 * number + row / 5 for row in range(50)]
        minutes += [minutes[0] - 15] if number else []
        pages = [f"page {row % 3}" for row in range(len(minutes))]
        columns = [[seconds(60 * minute) for minute in minutes], pages, [row % 7 for row in range(len(minutes))]]
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table(columns, schema=SCHEMA), path)
        in_order(path, number)


def counts_of(output: Path) -> list[Counter[Any]]:
    """The rows that the sink's own log has of each micro-batch: those of all windows but the last file's."""
    batches = []
    for log in sorted(output.glob("_spark_metadata/[0-9]*"), key=lambda path: int(path.name)):
        paths = [json.loads(line)["path"].removeprefix("file://") for line in log.read_text().splitlines()[1:]]
        batches.append(Counter(tuple(row.values()) for path in paths for row in pq.read_table(path).to_pylist()))
    assert sum(map(Counter.total, batches)) == 3 * (FILES - 1)
    return batches
