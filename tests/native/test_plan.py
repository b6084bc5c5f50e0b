"""`Plan` and the schema that it gives."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyslash import _native, errors
from tests.native.arrow import arrow_type
from tests.native.model import Query
from tests.native.strategies import VALUES


def test_a_plan_knows_its_panes_and_its_identity() -> None:
    """The fingerprint is the text's."""
    plan = _native.Plan(Query(12, 8, 3).text)
    assert plan.pane_us == 4
    assert plan.text == Query(12, 8, 3).text
    assert plan.fingerprint == _native.Plan(Query(12, 8, 3).text).fingerprint
    assert plan.fingerprint != _native.Plan(Query(12, 8, 2).text).fingerprint


@pytest.mark.parametrize("name", sorted(VALUES))
def test_keys_and_extremes_have_their_columns_type(name: str) -> None:
    """Windows first, then keys, then aggregates."""
    query = Query(10, 10, 0, ((name, True), (name, False)), (1, 2), (("min", 1), ("max", 2), ("count", 1)))
    schema = pa.schema(_native.Plan(query.text).schema)
    instant = pa.timestamp("us", "UTC")
    of = arrow_type(name)
    assert schema == pa.schema(
        [
            pa.field("window_start", instant, nullable=False),
            pa.field("window_end", instant, nullable=False),
            pa.field("key0", of),
            pa.field("key1", of, nullable=False),
            pa.field("agg0", of),
            pa.field("agg1", of, nullable=False),
            pa.field("agg2", pa.int64(), nullable=False),
        ]
    )


@pytest.mark.parametrize(
    ("name", "total", "mean"),
    [
        ("int8", pa.int64(), pa.float64()),
        ("int64", pa.int64(), pa.float64()),
        ("float32", pa.float64(), pa.float64()),
        ("decimal(7,2)", pa.decimal128(17, 2), pa.decimal128(11, 6)),
        ("decimal(38,10)", pa.decimal128(38, 10), pa.decimal128(38, 14)),
    ],
)
def test_sums_and_averages_have_sparks_types(name: str, total: pa.DataType, mean: pa.DataType) -> None:
    """As org.apache.spark.sql.catalyst.expressions.aggregate.{Sum, Average} say."""
    query = Query(10, 10, 0, ((name, True),), (), (("sum", 1), ("avg", 1)))
    schema = pa.schema(_native.Plan(query.text).schema)
    assert schema.types[2:] == [total, mean]


ROWS = "pyslash-plan 1\nwindow 10 10 0\ncolumn int64 1\nkey 1\n"


def test_a_plan_of_rows_is_another_plan() -> None:
    """Of each number of buckets; it has keys and no aggregates."""
    plans = [_native.Plan(f"{ROWS}rows {bits}\n") for bits in (0, 12)]
    assert len({plan.fingerprint for plan in plans}) == 2
    assert pa.schema(plans[0].schema).names == ["window_start", "window_end", "key0"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pyslash-plan 2\n",
        Query(10, 10).text.replace("count -", "median -"),
        Query(0, 10).text,
        ROWS,
        f"{ROWS}rows 13\n",
        f"{ROWS}rows -1\n",
        f"{ROWS}rows\n",
        f"{ROWS}rows 1\nrows 1\n",
        f"{ROWS}rows 1\nkey 1\n",
        f"{ROWS}rows 1\naggregate count - 0\n",
        f"{ROWS}aggregate count - 0\nrows 1\n",
    ],
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    """The native tests check every message."""
    with pytest.raises(errors.InvalidPlanError):
        _native.Plan(text)
