"""What native code reads of Parquet files without Spark, and what it leaves to Spark."""

from __future__ import annotations

import json
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
