"""What native code reads of Parquet files without Spark, and what it leaves to Spark."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from pyslash.ingest.only_spark import OnlySpark
from pyslash.ingest.parquet_scan import ParquetReader, ParquetScan, Split


def scan_of(columns: list[list[str]], **told: Any) -> ParquetScan:
    """A scan of nothing but columns, unless more is told."""
    nothing = {"time": [], "filters": [], "late_filters": [], "joins": [], "partitions": []}
    return ParquetScan.parse(
        json.dumps({**nothing, "columns": columns, "skips": True, "converts_int96": False, **told})
    )


@pytest.mark.parametrize(
    "location", ["wasb://container@account/k.parquet", "hdfs://name:8020/in/a#b.parquet", "file:/nowhere/k.parquet"]
)
def test_a_location_that_only_spark_can_open(location: str) -> None:
    reader = ParquetReader(scan_of([["k", "bigint"]]))
    with pytest.raises(OnlySpark, match="cannot be read"):
        list(reader.batches([Split(location, 0, 1000)]))


class _Silent:
    def __init__(self) -> None:
        self.asked, self.over = 0, threading.Event()

    def open_input_file(self, path: str) -> None:
        self.asked += 1
        self.over.wait(30)
        raise OSError("at last")


def test_a_store_that_does_not_answer_is_left_to_spark_and_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = _Silent()
    monkeypatch.setattr("pyslash.ingest.parquet_scan.open_location", lambda location: (silent, "in/k.parquet"))
    monkeypatch.setattr("pyslash.ingest.parquet_scan._ANSWER_SECONDS", 0.1)
    reader = ParquetReader(scan_of([["k", "bigint"]]))
    try:
        for _ in range(2):
            with pytest.raises(OnlySpark, match="has not answered"):
                list(reader.batches([Split("gs://bucket-that-is-silent/in/k.parquet", 0, 1000)]))
        assert silent.asked == 1
    finally:
        silent.over.set()
