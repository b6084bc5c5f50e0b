"""JSON from text files into windows: the rows, the watermarks and the figures of each micro-batch are plain Spark's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from tests.streaming.json_stream import START, Run, by_a_time_of_its_own, by_fields, events
from tests.streaming.stream import in_order


@pytest.mark.parametrize("query", [by_fields, by_a_time_of_its_own])
def test_json_from_text_files(spark: SparkSession, tmp_path: Path, query: Callable[[DataFrame], DataFrame]) -> None:
    """A file a micro-batch."""
    folder = tmp_path / "in"
    folder.mkdir()
    for batch in range(3):
        path = folder / f"{batch}.txt"
        records = events(batch, 1000, START + 20 * batch)
        path.write_bytes(b"\n".join(record.translate(None, b"\r\n") for record in records))
        in_order(path, batch)
    pyslash.enable(spark)
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(folder))
    rows = query(lines.withColumn("partition", F.lit(0)))
    plain, native = Run(rows, tmp_path / "plain", "off"), Run(rows, tmp_path / "native", "require")
    try:
        plain.go_on()
        native.go_on()
    finally:
        spark.conf.unset("spark.slash.mode")
        pyslash.disable()
    native.check(plain, records=3000)
