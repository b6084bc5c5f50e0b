"""Row groups that statistics rule out hold no row that passes; those that hold one are never ruled out."""

from __future__ import annotations

import io
import operator
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyslash.tasks.parquet_scan import _expression
from pyslash.tasks.row_groups import may_hold

INTS = st.one_of(st.none(), st.integers(-3, 3))
COLUMNS = st.sampled_from([["column", "a", "bigint"], ["column", "b", "bigint"]])
LITERALS = st.integers(-4, 4).map(lambda value: ["literal", "bigint", value])
OPERANDS = st.one_of(COLUMNS, LITERALS)
LEAVES = st.one_of(
    st.tuples(st.sampled_from(["=", "<", "<=", ">", ">="]), OPERANDS, OPERANDS).map(list),
    COLUMNS.map(lambda column: ["null", column]),
    st.lists(LITERALS, min_size=1, max_size=3).flatmap(lambda values: COLUMNS.map(lambda c: ["in", c, *values])),
)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda one: ["not", one]), st.tuples(st.sampled_from(["and", "or"]), inner, inner).map(list)
    ),
    max_leaves=5,
)


def group_of(table: pa.Table, **options: Any) -> pq.RowGroupMetaData:
    """The metadata of a file of one row group."""
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return pq.ParquetFile(file).metadata.row_group(0)


@given(rows=st.lists(st.tuples(INTS, INTS), min_size=1, max_size=6), filters=st.lists(FILTERS, max_size=2))
def test_no_row_is_lost(rows: list[tuple[int | None, int | None]], filters: list[Any]) -> None:
    a, b = (pa.array(values, pa.int64()) for values in zip(*rows, strict=True))
    table = pa.table({"a": a, "b": b})
    passing = table.filter(reduce(operator.and_, map(_expression, filters))) if filters else table
    if passing.num_rows:
        assert may_hold(group_of(table), filters)


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
