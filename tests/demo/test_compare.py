"""The demo's verdict: it has to notice every kind of difference."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyslash.demo.compare import committed_files, differences, read_rows, same

KEYS = ("window", "carrier")


def sink(folder: Path, *files: list[dict], leftover: list[dict] | None = None) -> Path:
    """A streaming sink's folder of one file a batch, as Spark leaves it."""
    log = folder / "_spark_metadata"
    log.mkdir(parents=True)
    for number, rows in enumerate(files):
        path = folder / f"part {number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path)
        (log / str(number)).write_text("v1\n" + json.dumps({"path": path.as_uri(), "action": "add"}))
    if leftover:
        pq.write_table(pa.Table.from_pylist(leftover), folder / "part-of-a-failed-task.parquet")
    return folder


def row(start: int, carrier: str, flights: int, mean: float | None) -> dict:
    return {"window": {"start": start, "end": start + 1}, "carrier": carrier, "flights": flights, "mean": mean}


def test_equal_results_whatever_their_order_and_files(tmp_path: Path) -> None:
    left = sink(tmp_path / "a", [row(1, "UA", 2, 0.3), row(2, "UA", 3, None)], [row(1, "AA", 1, 5.0)])
    right = sink(tmp_path / "b", [row(1, "AA", 1, 5.0), row(1, "UA", 2, 0.1 + 0.2)], [row(2, "UA", 3, None)])
    assert not list(differences(read_rows(left, KEYS), read_rows(right, KEYS)))


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
    expected = read_rows(sink(tmp_path / "a", [row(1, "UA", 2, 0.3)]), KEYS)
    (line,) = differences(expected, read_rows(sink(tmp_path / "b", found), KEYS))
    assert said in line


def test_a_row_twice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="two rows of"):
        read_rows(sink(tmp_path / "a", [row(1, "UA", 2, 0.3)], [row(1, "UA", 2, 0.3)]), KEYS)


def test_only_committed_files_count(tmp_path: Path) -> None:
    folder = sink(tmp_path / "a", [row(1, "UA", 2, 0.3)], leftover=[row(1, "UA", 2, 0.3)])
    assert len(read_rows(folder, KEYS)) == 1


def test_a_compacted_log_stands_for_the_batches_before(tmp_path: Path) -> None:
    folder = sink(tmp_path / "a", [row(1, "UA", 2, 0.3)], [row(2, "UA", 2, 0.3)], [row(3, "UA", 2, 0.3)])
    log = folder / "_spark_metadata"
    first, second = (log / "0").read_text(), (log / "1").read_text()
    (log / "1.compact").write_text(first + second.removeprefix("v1"))
    (log / "1").unlink()
    assert [file.name for file in committed_files(folder)] == ["part 0.parquet", "part 1.parquet", "part 2.parquet"]


def test_tolerance_is_for_floats_only() -> None:
    assert same(1e9, 1e9 + 0.1)
    assert not same(10**12, 10**12 + 1)
    assert not same(1.0, None)
