"""The demo's verdict: it has to notice every kind of difference."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyslash.demo.compare import committed_files, differences, read_rows, same

KEYS = ("window.start", "window.end", "carrier")
SCHEMA = pa.schema(
    [
        ("window", pa.struct([("start", pa.int64()), ("end", pa.int64())])),
        ("carrier", pa.string()),
        ("flights", pa.int64()),
        ("mean", pa.float64()),
    ]
)


def sink(folder: Path, *files: list[dict], leftover: list[dict] | None = None) -> Path:
    """A streaming sink's folder of one file a batch, as Spark leaves it."""
    log = folder / "_spark_metadata"
    log.mkdir(parents=True)
    for number, rows in enumerate(files):
        path = folder / f"part {number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
        (log / str(number)).write_text("v1\n" + json.dumps({"path": path.as_uri(), "action": "add"}))
    if leftover:
        pq.write_table(pa.Table.from_pylist(leftover, SCHEMA), folder / "part-of-a-failed-task.parquet")
    return folder


def row(start: int, carrier: str | None, flights: int, mean: float | None) -> dict:
    return {"window": {"start": start, "end": start + 1}, "carrier": carrier, "flights": flights, "mean": mean}


def test_equal_results_whatever_their_order_and_files(tmp_path: Path) -> None:
    left = sink(tmp_path / "a", [row(1, "UA", 2, 0.3), row(2, "UA", 3, None)], [row(1, "AA", 1, 5.0)])
    right = sink(tmp_path / "b", [row(1, "AA", 1, 5.0), row(1, "UA", 2, 0.1 + 0.2)], [row(2, "UA", 3, None)])
    assert not list(differences(read_rows(left), read_rows(right), KEYS))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([], "missing"),
        ([row(1, "UA", 2, 0.3), row(1, "AA", 2, 0.3)], "unexpected"),
        ([row(1, "UA", 3, 0.3)], "flights is 3, expected 2"),
        ([row(1, "UA", 2, 0.3001)], "mean is 0.3001, expected 0.3"),
        ([row(1, "UA", 2, None)], "mean is None"),
    ],
)
def test_each_kind_of_difference(tmp_path: Path, found: list[dict], said: str) -> None:
    expected = read_rows(sink(tmp_path / "a", [row(1, "UA", 2, 0.3)]))
    (line,) = differences(expected, read_rows(sink(tmp_path / "b", found)), KEYS)
    assert said in line


def test_a_row_twice_is_a_difference(tmp_path: Path) -> None:
    one = [row(1, "UA", 2, 0.3)]
    once, twice = read_rows(sink(tmp_path / "a", one)), read_rows(sink(tmp_path / "b", one, one))
    for expected, found in ((once, twice), (twice, once), (twice, twice)):
        assert any(line.startswith("twice: ") for line in differences(expected, found, KEYS))


def test_null_keys_are_a_key(tmp_path: Path) -> None:
    rows = [row(1, "UA", 2, 0.3), row(1, None, 3, 0.3)]
    left, right = (read_rows(sink(tmp_path / name, rows)) for name in "ab")
    assert not list(differences(left, right, KEYS))


def test_other_columns_are_a_difference(tmp_path: Path) -> None:
    left = read_rows(sink(tmp_path / "a", [row(1, "UA", 2, 0.3)]))
    (line,) = differences(left, left.drop_columns("mean"), KEYS)
    assert line.startswith("columns are ")


def test_only_committed_files_count(tmp_path: Path) -> None:
    folder = sink(tmp_path / "a", [row(1, "UA", 2, 0.3)], leftover=[row(1, "UA", 2, 0.3)])
    assert read_rows(folder).num_rows == 1


def test_a_compacted_log_stands_for_the_batches_before(tmp_path: Path) -> None:
    folder = sink(tmp_path / "a", [row(1, "UA", 2, 0.3)], [row(2, "UA", 2, 0.3)], [row(3, "UA", 2, 0.3)])
    log = folder / "_spark_metadata"
    first, second = (log / "0").read_text(), (log / "1").read_text()
    (log / "1.compact").write_text(first + second.removeprefix("v1"))
    (log / "1").unlink()
    assert [file.name for file in committed_files(folder)] == ["part 0.parquet", "part 1.parquet", "part 2.parquet"]


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1e9, 1e9 + 0.1, True),
        (1e9, 1e9 + 10, False),
        (10**12, 10**12 + 1, False),
        (1.0, None, False),
        (None, None, True),
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (float("inf"), float("inf"), True),
        (float("inf"), 1.0, False),
    ],
)
def test_tolerance_is_for_floats_only(left: float | None, right: float | None, equal: bool) -> None:
    kind = pa.int64() if isinstance(left, int) else pa.float64()
    columns = [pa.chunked_array([[value]], kind) for value in (left, right)]
    assert same(*columns).tolist() == [equal]
