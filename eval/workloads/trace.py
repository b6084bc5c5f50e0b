"""The public Google cluster trace of 2011: a file of its table `task_events`, as rows of cluster monitoring."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
from pyarrow import csv

# The thirteen columns of the trace's format 2.1, in order; those that are not kept have no type.
COLUMNS: dict[str, pa.DataType | None] = {
    "time": None,
    "missing_info": None,
    "job_id": pa.int64(),
    "task_index": pa.int32(),
    "machine_id": pa.int64(),
    "event_type": pa.int32(),
    "user": None,
    "category": pa.int32(),
    "priority": pa.int32(),
    "cpu": pa.float64(),
    "memory": pa.float64(),
    "disk": pa.float64(),
    "different_machines": pa.bool_(),
}
KEPT = {name: kind for name, kind in COLUMNS.items() if kind is not None}


@cache
def read_task_events(path: str) -> pa.Table:
    """The kept columns of a CSV file without header, compressed (`.gz`) or not; an empty field is a null.

    Raises:
        ValueError: the file is no `task_events` of that format.
    """
    try:
        return csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=list(COLUMNS)),
            convert_options=csv.ConvertOptions(include_columns=list(KEPT), column_types=KEPT, strings_can_be_null=True),
        )
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is no task_events file of {len(COLUMNS)} columns: {error}") from None
