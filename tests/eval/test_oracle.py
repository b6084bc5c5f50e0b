"""Comparing an engine's rows with the oracle's: order does not matter, values and types do, float sums nearly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from eval import oracle

START = datetime(2024, 1, 1, tzinfo=UTC)


def rows(*values: tuple[int, str, float | None], unit: str = "us") -> pa.Table:
    """A result: window number, key, value."""
    starts = [START + timedelta(seconds=10 * window) for window, _, _ in values]
    kind = pa.timestamp(unit, tz="UTC")
    return pa.table(
        {
            "window_start": pa.array(starts, kind),
            "window_end": pa.array([start + timedelta(seconds=10) for start in starts], kind),
            "key": [key for _, key, _ in values],
            "value": pa.array([value for _, _, value in values], pa.float64()),
        }
    )


EXPECTED = rows((0, "a", 1.5), (0, "b", None), (1, "a", 1e9))


def test_order_names_and_units_of_time_do_not_matter() -> None:
    other = rows((1, "a", 1e9), (0, "b", None), (0, "a", 1.5), unit="ms").rename_columns(["w", "x", "y", "z"])
    assert oracle.same_rows(other, EXPECTED)


def test_floating_sums_may_differ_by_their_order_alone() -> None:
    assert oracle.same_rows(rows((0, "a", 1.5), (0, "b", None), (1, "a", 1e9 + 0.5)), EXPECTED)
    assert not oracle.same_rows(rows((0, "a", 1.5), (0, "b", None), (1, "a", 1e9 + 5)), EXPECTED)


@pytest.mark.parametrize(
    "wrong",
    [
        rows((0, "a", 1.5), (0, "b", None)),
        rows((0, "a", 1.5), (0, "b", None), (1, "a", 1e9), (1, "a", 1e9)),
        rows((0, "a", 1.5), (0, "b", 0.0), (1, "a", 1e9)),
        rows((0, "a", None), (0, "b", None), (1, "a", 1e9)),
        rows((0, "a", 1.5), (0, "c", None), (1, "a", 1e9)),
        rows((0, "a", 1.5), (0, "b", None), (2, "a", 1e9)),
        EXPECTED.drop_columns("value"),
    ],
    ids=["missing", "twice", "null", "not-null", "key", "window", "column"],
)
def test_anything_else_differs(wrong: pa.Table) -> None:
    assert not oracle.same_rows(wrong, EXPECTED)


def test_nan_equals_nan_alone() -> None:
    nan = rows((0, "a", float("nan")))
    assert oracle.same_rows(nan, nan)
    assert not oracle.same_rows(nan, rows((0, "a", 1.0)))


def test_windows_that_are_still_open_in_the_oracle_are_left_out() -> None:
    whole = pa.concat_tables([EXPECTED, rows((2, "a", 7.0))])
    assert not oracle.same_rows(whole, EXPECTED)
    assert oracle.same_rows(oracle.closed(whole, EXPECTED), EXPECTED)
