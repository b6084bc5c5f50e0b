"""A checkpoint on a store that only Spark reaches: its manifests are read and written by Spark's own code."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.state.files import exclusive
from pyslash.state.files.checkpoint_files import SparkFiles, checkpoint_files
from tests.support.stream import Stream, run, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])


def refuse(*_: object) -> NoReturn:
    raise OSError(errno.EPERM, "no exclusive names here")


def windows(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.window("ts", "10 seconds"), "k").agg(F.count("*").alias("n"))


def test_a_query_continues_there(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusive, "by_link", refuse)
    monkeypatch.setattr(exclusive, "by_rename", refuse)
    assert isinstance(checkpoint_files(spark, f"file:{tmp_path}/any", "slash"), SparkFiles)
    stream = Stream(spark, tmp_path, SCHEMA, 5)

    def add(start: int) -> None:
        times = [seconds(start + second) for second in range(30)]
        stream.add(pa.table({"ts": times, "k": [second % 3 for second in range(30)]}, schema=SCHEMA))

    add(0)
    add(20)
    first = run(windows(stream.read()), tmp_path)
    add(60)
    second = run(windows(stream.read()), tmp_path)
    assert sorted(first.rows + second.rows) == sorted(
        stream.expected(F.window("ts", "10 seconds"), [F.col("k")], [F.count("*")])
    )
    assert len(first.rows) > 0 < len(second.rows)
