"""The demo's input: every flight once, in event-time order, in files that Spark reads in that order."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from pyslash.demo.flights import SCHEMA, read_flights, write_files


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    return read_flights()


def test_all_flights_of_2013_are_there(flights: pd.DataFrame) -> None:
    assert len(flights) == 336_776
    assert flights["scheduled_departure"].is_monotonic_increasing
    assert flights["departure_delay"].isna().sum() == 8_255  # cancelled
    assert flights["departure_delay"].max() == 1_301
    # 5:15 in New York, the year's first.
    assert flights["scheduled_departure"].iloc[0] == datetime(2013, 1, 1, 10, 15, tzinfo=UTC)


def test_files_keep_order_and_count(flights: pd.DataFrame, tmp_path: Path) -> None:
    few = flights.head(1_003)
    made = write_files(few, tmp_path / "flights", 10)
    files = sorted(made.folder.iterdir(), key=lambda file: file.stat().st_mtime)
    tables = [pq.read_table(file) for file in files]
    assert [table.num_rows for table in tables] == list(made.rows)
    assert all(table.schema.equals(SCHEMA) for table in tables)
    again = pd.concat([table.to_pandas() for table in tables], ignore_index=True)
    assert (again["scheduled_departure"] == few["scheduled_departure"]).all()
    assert made.rows_of(0) == 0
    assert made.rows_of(3) == sum(made.rows[:3])
    assert made.rows_of(99) == 1_003
