"""The demo's input: every flight once, in the order of reports, in files that Spark reads in that order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.demo.flights import (
    EVENT_TIME,
    SCHEMA,
    DemoDataError,
    Input,
    Late,
    Windows,
    late_rows,
    read_flights,
    write_files,
    write_years,
)

HOUR = 3_600_000_000


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    return read_flights()


def test_all_flights_of_2013_are_there(flights: pd.DataFrame) -> None:
    assert len(flights) == 336_776
    assert flights["departure_delay"].isna().sum() == 8_255  # cancelled
    assert flights["departure_delay"].max() == 1_301
    # 5:15 in New York, the year's first.
    assert flights[EVENT_TIME].min() == datetime(2013, 1, 1, 10, 15, tzinfo=UTC)


def test_a_flight_is_reported_when_its_plane_next_leaves(flights: pd.DataFrame) -> None:
    flown = flights[flights["tailnum"] == "N14228"].dropna(subset="departure_delay")
    left = flown[EVENT_TIME] + pd.to_timedelta(flown["departure_delay"].astype(float), unit="min")
    assert left.is_monotonic_increasing
    others = flights[flights["tailnum"].isna()]
    assert others[EVENT_TIME].is_monotonic_increasing
    first, second = flown.index[:2]
    between = flights.loc[first + 1 : second - 1, EVENT_TIME]
    assert (between > left.loc[first]).mean() > 0.01
    # Reported at the time of the second departure, among flights of about that time.
    around = flights.loc[first - 200 : first + 200, EVENT_TIME]
    assert around.max() > left.loc[second] - timedelta(hours=3)


def test_files_keep_order_and_count(flights: pd.DataFrame, tmp_path: Path) -> None:
    few = flights.head(1_003)
    made = write_files(few, tmp_path / "flights", 10)
    files = sorted(made.folder.iterdir(), key=lambda file: file.stat().st_mtime)
    tables = [pq.read_table(file) for file in files]
    assert [table.num_rows for table in tables] == list(made.rows)
    assert all(table.schema.equals(SCHEMA) for table in tables)
    again = pd.concat([table.to_pandas() for table in tables], ignore_index=True)
    assert (again[EVENT_TIME] == few[EVENT_TIME]).all()
    assert made.rows_of(0) == 0
    assert made.rows_of(3) == sum(made.rows[:3])
    assert made.rows_of(99) == 1_003


def test_years_are_the_same_rows_with_later_dates(flights: pd.DataFrame, tmp_path: Path) -> None:
    few = flights.head(100)
    made = write_years(few, tmp_path / "years", 2, 5)
    assert made.rows == (200, 300)
    tables = [pq.read_table(file).to_pandas() for file in sorted(made.folder.iterdir())]
    again = pd.concat(tables, ignore_index=True)
    for year in range(5):
        part = again.iloc[year * 100 : (year + 1) * 100].reset_index(drop=True)
        assert (part[EVENT_TIME] == few[EVENT_TIME] + timedelta(days=365 * year)).all()
        assert (part["flight"] == few["flight"]).all()


def test_a_file_of_no_year_is_refused(flights: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(DemoDataError, match="--years 8 or more"):
        write_years(flights.head(5), tmp_path / "years", 8, 7)


@pytest.mark.parametrize(
    ("hours", "late"),
    [
        # The third micro-batch is held against 99, the watermark after the first, not against 199.
        ([[100], [200], [99]], Late(0, 0)),
        ([[100], [200], [98.5]], Late(1, 0)),
        ([[100], [200], [98]], Late(1, 0)),
        ([[100], [200], [97]], Late(1, 1)),
        ([[100], [97], [97]], Late(1, 1)),
        ([[100], [], [97]], Late(1, 1)),
        ([[100], [97]], Late(0, 0)),
    ],
)
def test_a_row_is_late_by_the_watermark_before_the_last(hours: list[list[float]], late: Late) -> None:
    batches = [np.array(batch, np.float64) * HOUR for batch in hours]
    assert late_rows([batch.astype(np.int64) for batch in batches], Windows("2 hours", "1 hour", "1 hour")) == late


def test_spark_counts_the_same_rows_as_late(spark: SparkSession, flights: pd.DataFrame, tmp_path: Path) -> None:
    """Tumbling windows: a late row is a dropped one, so that the windows emitted count all the others."""
    data: Input = write_files(flights.head(4_000), tmp_path / "flights", 12)
    windows = Windows("1 hour", "1 hour", "1 hour")
    late = late_rows(data.event_times(1), windows)
    assert 0 < late.rows == late.dropped
    emitted: list[int] = []

    def add(rows: DataFrame, _: int) -> None:
        emitted.append(sum(row["flights"] for row in rows.collect()))

    schema = spark.read.parquet(str(data.folder)).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(data.folder))
    counted = stream.withWatermark(EVENT_TIME, windows.delay).groupBy(F.window(EVENT_TIME, windows.window))
    writer = counted.agg(F.count("*").alias("flights")).writeStream.foreachBatch(add)
    writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()
    end = flights.head(4_000)[EVENT_TIME].max() - timedelta(hours=1)
    closed = (flights.head(4_000)[EVENT_TIME] < end.floor("h")).sum()
    assert sum(emitted) == closed - late.dropped
