"""A whole query on S3, by Hadoop's own client: logs, state and result are objects of a server on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pyslash.file_systems import open_location
from pyslash.spark.session import changed
from tests.hadoop import s3_job
from tests.support.hadoop import fetched
from tests.support.s3_server import s3_server
from tests.support.stream import seconds

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
FIRST, STRUCK, SECOND = "012", "2", "3"


def write(folder: Path) -> Path:
    """A file of each ten seconds, with rows that are late from the third on; the input is empty at first."""
    (folder / "in").mkdir(parents=True)
    for number in range(len(FIRST + SECOND)):
        times = [seconds(10 * number + row / 10 - (25 if row == 50 else 0)) for row in range(100)]
        columns = [times, [row % 3 for row in range(100)], list(range(100))]
        pq.write_table(pa.table(columns, schema=SCHEMA), folder / f"{number}.parquet")
    return folder


def batches(location: str) -> dict[int, Counter[Any]]:
    """The rows of each micro-batch, by the sink's own log."""
    files, root = open_location(f"{location}/out/_spark_metadata")
    found = {}
    for log in files.get_file_info(fs.FileSelector(root)):
        if log.base_name.isdigit():
            with files.open_input_stream(log.path) as stream:
                paths = [json.loads(line)["path"] for line in stream.readall().decode().splitlines()[1:]]
            tables = [pq.read_table(path, filesystem=at) for at, path in map(open_location, paths)]
            found[int(log.base_name)] = Counter(tuple(row.values()) for rows in tables for row in rows.to_pylist())
    return found


def by_spark(spark: SparkSession, folder: Path) -> dict[int, Counter[Any]]:
    """What plain Spark gives, on a disk, with the same files and the same restart."""
    location = f"file:{folder}"
    with changed(spark, {"spark.slash.mode": "off"}):
        for part in (FIRST, SECOND):
            query = s3_job.start(spark, folder, location)
            for number in part:
                s3_job.read(query, folder, int(number))
            query.stop()
    return batches(location)


def by_pyslash(folder: Path, location: str, log: Path, *arguments: str) -> list[dict[str, Any]]:
    """What an application tells of its epochs; then all of it is killed: the driver, its JVM, its agent."""
    command = [sys.executable, "-m", "tests.hadoop.s3_job", str(folder), location, *arguments]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        ) as job,
    ):
        assert job.stdout is not None
        try:
            told = next((line for line in job.stdout if line.startswith(s3_job.TOLD)), None)
        finally:
            os.killpg(job.pid, signal.SIGKILL)
    assert told, log.read_text()[-4000:]
    return json.loads(told.removeprefix(s3_job.TOLD))  # type: ignore[no-any-return]


def test_a_query_survives_its_agent_and_its_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched("s3")
    expected = by_spark(spark, write(tmp_path / "spark"))
    assert sum(map(Counter.total, expected.values())) == 3 * len(FIRST)
    folder = write(tmp_path / "slash")
    with s3_server(monkeypatch) as bucket:
        location = f"{bucket}/query"
        first = by_pyslash(folder, location, tmp_path / "first", FIRST, STRUCK)
        second = by_pyslash(folder, location, tmp_path / "second", SECOND)
        found = batches(location)
        files, root = open_location(f"{location}/checkpoint/slash/blocks")
        assert files.get_file_info(fs.FileSelector(root))
    assert found == expected
    assert [epoch["epoch"] for epoch in first + second] == sorted(expected)
    assert [epoch["recoveries"] for epoch in first if epoch["recoveries"]] == [1]
    assert max(epoch["restored_files"] for epoch in first) > 0, "the new agent has read its state on S3"
    assert second[0]["restored_files"] > 0, "so has the agent of the new driver"
