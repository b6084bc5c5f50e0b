"""Random filters over two columns of small integers and nulls, and rows of such."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

Rows = list[tuple[int | None, int | None]]

_INTS = st.one_of(st.none(), st.integers(-3, 3))
_COLUMNS = st.sampled_from([["column", "a", "bigint"], ["column", "b", "bigint"]])
_LITERALS = st.integers(-4, 4).map(lambda value: ["literal", "bigint", value])
_OPERANDS = st.one_of(_COLUMNS, _LITERALS)
_LEAVES = st.one_of(
    st.tuples(st.sampled_from(["=", "<", "<=", ">", ">="]), _OPERANDS, _OPERANDS).map(list),
    _COLUMNS.map(lambda column: ["null", column]),
    st.lists(_LITERALS, min_size=1, max_size=3).flatmap(lambda values: _COLUMNS.map(lambda c: ["in", c, *values])),
)
_CONDITIONS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda one: ["not", one]), st.tuples(st.sampled_from(["and", "or"]), inner, inner).map(list)
    ),
    max_leaves=5,
)
ROWS = st.lists(st.tuples(_INTS, _INTS), min_size=1, max_size=6)
FILTERS = st.lists(_CONDITIONS, max_size=2)


def batch_of(rows: Rows) -> pa.RecordBatch:
    """Columns `a` and `b`."""
    a, b = (pa.array(values, pa.int64()) for values in zip(*rows, strict=True))
    return pa.record_batch({"a": a, "b": b})
