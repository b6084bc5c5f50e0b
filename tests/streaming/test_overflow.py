"""Sums beyond their type: an error under ANSI, Spark's own wrapped value without it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.stream import Stream, differences, run, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """Two batches whose sum of key 0 is 2^63 + 1, and one that closes their window."""
    made = Stream(spark, tmp_path, SCHEMA, delay_seconds=0)
    for values in ([2**62, 5], [2**62 + 1, 6]):
        made.add(pa.table({"ts": [seconds(1000)] * 2, "k": [0, 1], "v": values}, SCHEMA))
    made.add(pa.table({"ts": [seconds(5000)], "k": [0], "v": [0]}, SCHEMA))
    return made


@pytest.mark.parametrize("conf", [{"ingest": "rows"}, {"ingest": "files"}, {"merge.driverBytes": "0"}], ids=str)
@pytest.mark.parametrize("ansi", [True, False])
def test_a_sum_across_batches(stream: Stream, conf: dict[str, str], ansi: bool) -> None:
    window, sums = F.window("ts", "10 seconds"), [F.sum("v")]
    stream.spark.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    try:
        query = stream.read().groupBy(window, "k").agg(*sums)
        if ansi:
            with pytest.raises(StreamingQueryException, match="ARITHMETIC_OVERFLOW"):
                run(query, stream.folder, **conf)
        else:
            expected = stream.expected(window, [F.col("k")], sums)
            assert {row[2] for row in expected} == {-(2**63) + 1, 11}
            assert list(differences(run(query, stream.folder, **conf).rows, expected, 1)) == []
    finally:
        stream.spark.conf.unset("spark.sql.ansi.enabled")
