"""Row groups that statistics rule out hold no row that passes; those that hold one are never ruled out."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from pyslash.ingest.filter import Filter
from pyslash.ingest.row_groups import may_hold
from tests.support.filters import FILTERS, ROWS, Rows, batch_of


def group_of(table: pa.Table, **options: Any) -> pq.RowGroupMetaData:
    """The metadata of a file of one row group."""
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return pq.ParquetFile(file).metadata.row_group(0)


@given(rows=ROWS, filters=FILTERS)
def test_no_row_is_lost(rows: Rows, filters: list[Any]) -> None:
    batch = batch_of(rows)
    if Filter(filters).apply(batch).num_rows:
        assert may_hold(group_of(pa.Table.from_batches([batch])), filters)


TIMES = pa.table(
    {
        "t": pa.array([5, 9], pa.timestamp("us", "UTC")),
        "d": pa.array([3, 4], pa.date32()),
        "i": pa.array([7, None], pa.int8()),
        "n": pa.array([None, None], pa.int64()),
        "s": ["a", "b"],
    }
)


@pytest.mark.parametrize(
    ("condition", "held"),
    [
        (["<", ["column", "t", "timestamp"], ["literal", "timestamp", 5]], False),
        (["<=", ["column", "t", "timestamp"], ["literal", "timestamp", 5]], True),
        ([">=", ["literal", "date", 2], ["column", "d", "date"]], False),
        (["not", ["=", ["column", "i", "tinyint"], ["literal", "tinyint", 7]]], False),
        (["in", ["column", "i", "tinyint"], ["literal", "tinyint", 6], ["literal", "tinyint", 8]], False),
        (["null", ["column", "i", "tinyint"]], True),
        (["null", ["column", "t", "timestamp"]], False),
        (["not", ["null", ["column", "n", "bigint"]]], False),
        (["=", ["column", "n", "bigint"], ["literal", "bigint", 1]], False),
        (["=", ["column", "s", "string"], ["literal", "string", "c"]], True),
        (["and", ["null", ["column", "n", "bigint"]], [">", ["column", "d", "date"], ["literal", "date", 4]]], False),
        (["or", ["null", ["column", "n", "bigint"]], [">", ["column", "d", "date"], ["literal", "date", 4]]], True),
    ],
)
def test_what_statistics_tell(condition: list[Any], held: bool) -> None:
    assert may_hold(group_of(TIMES), [condition]) is held
    assert may_hold(group_of(TIMES, write_statistics=False), [condition])


@pytest.mark.parametrize(("oldest", "held"), [(-25567, False), (-25568, True)])
@pytest.mark.parametrize(("kind", "unit"), [(pa.date32(), 1), (pa.timestamp("us", "UTC"), 86_400_000_000)])
def test_bounds_before_1900_tell_nothing(oldest: int, held: bool, kind: pa.DataType, unit: int) -> None:
    """Spark may read such a date or time as another one."""
    number = pa.array([oldest * unit, 0], pa.int32() if unit == 1 else pa.int64())
    column = ["column", "t", "date" if unit == 1 else "timestamp"]
    group = group_of(pa.table({"t": number.cast(kind)}))
    assert may_hold(group, [[">", column, ["literal", column[2], unit]]]) == held
