"""Iceberg tables have, snapshot by snapshot, the rows of plain Spark; an epoch that comes again adds none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from tests.support.attempt import settings
from tests.support.stream import Stream, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])


@dataclass
class Table:
    """A table of the catalog, and the query that writes it."""

    stream: Stream
    mode: str
    output: str

    @property
    def name(self) -> str:
        return f"lake.db.{self.output}_{self.mode}"

    @property
    def checkpoint(self) -> Path:
        return self.stream.folder / f"checkpoint-{self.output}-{self.mode}"

    def counts(self) -> DataFrame:
        counted = self.stream.read().groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v").alias("v"))
        return counted.select("window.start", "k", "v")

    def run(self) -> None:
        """To the end of what there is to read."""
        with settings(self.stream.spark, {"spark.slash.mode": self.mode}):
            writer = (
                self.counts().writeStream.outputMode(self.output).option("checkpointLocation", str(self.checkpoint))
            )
            query = writer.trigger(availableNow=True).toTable(self.name, format="iceberg")
            assert query.awaitTermination(900)
            assert bool(pyslash.progress(query)) == (self.mode == "require")

    def snapshots(self) -> list[tuple[str, Counter[tuple[object, ...]]]]:
        """Of each snapshot the epoch that made it, and the table's rows as of it."""
        spark = self.stream.spark
        made = spark.sql(f"SELECT snapshot_id, summary FROM {self.name}.snapshots ORDER BY committed_at").collect()
        return [
            (
                summary["spark.sql.streaming.epochId"],
                Counter(map(tuple, spark.sql(f"SELECT * FROM {self.name} VERSION AS OF {number}").collect())),
            )
            for number, summary in made
        ]

    def forget_the_last_commit(self) -> None:
        """As if the driver had been lost between the table's commit and Spark's."""
        last = max(int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*"))
        for name in (f"{last}", f".{last}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Iterator[Stream]:
    made = Stream(spark, tmp_path, SCHEMA, delay_seconds=0)
    for first in (1000, 1010, 1030):
        add(made, first)
    pyslash.enable(spark)
    yield made
    pyslash.disable()


def add(stream: Stream, first: int) -> None:
    times = [seconds(first + i % 15) for i in range(60)]
    stream.add(pa.table({"ts": times, "k": [i % 7 for i in range(60)], "v": list(range(60))}, SCHEMA))


@pytest.mark.parametrize("output", ["append", "complete"])
def test_a_table_has_the_snapshots_that_plain_spark_gives_it(stream: Stream, output: str) -> None:
    plain, ours = (Table(stream, mode, output) for mode in ("off", "require"))
    for table in (plain, ours):
        table.run()
    first = ours.snapshots()
    assert first == plain.snapshots()
    for table in (plain, ours):
        table.forget_the_last_commit()
        table.run()
    # Iceberg knows the epoch's number from the snapshot, and passes over it.
    assert ours.snapshots() == plain.snapshots() == first
    add(stream, 1050)
    for table in (plain, ours):
        table.run()
    epochs = ours.snapshots()
    assert epochs == plain.snapshots()
    assert len(epochs) > len(first) >= 3
    assert epochs[-1][1].total() >= 14
