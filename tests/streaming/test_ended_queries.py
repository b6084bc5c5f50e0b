"""What an ended query leaves in the agents: nothing, where its checkpoint has it all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.streaming.stream import Outcome, Stream, differences, run, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])
WINDOW = "10 seconds"


def table(start: float) -> pa.Table:
    return pa.table({"ts": [seconds(start)] * 100, "k": list(range(100))}, SCHEMA)


def test_an_ended_query_frees_its_memory_and_goes_on_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path / "first", SCHEMA, delay_seconds=0)
    other = Stream(spark, tmp_path / "other", SCHEMA, delay_seconds=0)
    stream.add(table(1000))
    other.add(table(1000))

    def ran(which: Stream) -> Outcome:
        return run(which.read().groupBy(F.window("ts", WINDOW), "k").count(), which.folder)

    first = ran(stream)
    assert first.rows == []  # the window is open: the agents held all of it when the query ended
    assert ran(other).progress[0]["pinned_bytes"] == first.progress[0]["pinned_bytes"] > 0
    stream.add(table(2000))
    expected = stream.oracle(F.window("ts", WINDOW), [F.col("k")], [F.count("*")]).collect()
    assert len(expected) == 100
    assert list(differences(ran(stream).rows, expected, 1)) == []
