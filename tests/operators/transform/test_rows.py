"""What a processor gives, packed into streams of Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import Row, StructType

from pyslash.operators.transform.rows import Given

SCHEMA = StructType().add("number", "long").add("text", "string")


@pytest.mark.parametrize(("rows", "width", "count"), [(180, 1 << 18, 7), (25_000, 1, 4)])
def test_streams_hold_few_wide_rows_and_many_narrow_ones(rows: int, width: int, count: int) -> None:
    """Else a batch of wide ones would not fit a column of Arrow: Spark has a batch for each key."""
    given, text = Given(SCHEMA), "x" * width
    given.take(Row(number=number, text=text) for number in range(rows))
    batches = [pa.ipc.open_stream(stream).read_all() for stream in given.packed()]
    assert [number for batch in batches for number in batch.column("number").to_pylist()] == list(range(rows))
    assert given.rows == rows
    assert len(batches) == count
    assert all(batch.nbytes <= 5 << 20 for batch in batches[1:])
