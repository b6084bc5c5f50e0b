"""A query that is fed step by step, as in Spark's own suites: add data, let the query take it, look at what is new."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

SECONDS = 120
Rows = list[tuple[Any, ...]]


class Feed:
    """A stream of files; each `add` is one file, and thus one micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path, schema: pa.Schema, ddl: str) -> None:
        self._spark, self._folder, self._schema, self._ddl = spark, folder, schema, ddl
        self._files = 0
        folder.mkdir()

    def add(self, *rows: Any) -> None:
        """A file of these rows, which may be none; a row is a value or a tuple of them."""
        tuples = [row if isinstance(row, tuple) else (row,) for row in rows]
        columns = [[row[i] for row in tuples] for i in range(len(self._schema))]
        arrays = [pa.array(values, kind) for values, kind in zip(columns, self._schema.types, strict=True)]
        hidden = self._folder / ".hidden"
        pq.write_table(pa.table(arrays, schema=self._schema), hidden)
        # The file source reads in the order of modification times.
        os.utime(hidden, (1_000_000_000 + self._files,) * 2)
        hidden.rename(self._folder / f"{self._files:04d}.parquet")
        self._files += 1

    def read(self) -> DataFrame:
        """The stream."""
        reader = self._spark.readStream.schema(self._ddl).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self._folder))


class Job:
    """One job on one engine, with its checkpoint; it may be stopped and started again."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.batches: list[tuple[int, Rows]] = []
        self._seen = 0
        self._feeds = 0
        self._query: StreamingQuery | None = None

    @property
    def query(self) -> StreamingQuery:
        """The one that was started last."""
        assert self._query is not None
        return self._query

    def feed(self, **columns: str) -> Feed:
        """A new stream; columns by Spark's names of their types, `value bigint` if there are none."""
        columns = columns or {"value": "bigint"}
        kinds = {"bigint": pa.int64(), "string": pa.string(), "timestamp": pa.timestamp("us", "UTC")}
        schema = pa.schema([(name, kinds[kind]) for name, kind in columns.items()])
        self._feeds += 1
        ddl = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        return Feed(self.spark, self.folder / f"in{self._feeds}", schema, ddl)

    def start(self, df: DataFrame, sink: Callable[[DataFrame, int], None] | None = None) -> StreamingQuery:
        """Start the query into a function, which collects its rows if nothing else is given."""
        return self.begin(df.writeStream.foreachBatch(sink or self.collect))

    def begin(self, writer: DataStreamWriter, **options: Any) -> StreamingQuery:
        """Start the query with the job's checkpoint."""
        return self.watch(writer.option("checkpointLocation", str(self.folder / "checkpoint")).start(**options))

    def watch(self, query: StreamingQuery) -> StreamingQuery:
        """The job's query is this one now."""
        self._query = query
        return query

    def collect(self, rows: DataFrame, batch: int) -> None:
        """The sink: keeps a batch's rows."""
        self.batches.append((batch, [_plain(row) for row in rows.collect()]))

    def step(self, feed: Feed, *rows: Any) -> Rows:
        """Add rows, and give what the query's batches until it waits for data again have emitted, sorted."""
        feed.add(*rows)
        return self.new()

    def new(self) -> Rows:
        """What has come since the last look, sorted, once the query waits for data."""
        self.query.processAllAvailable()
        found = [row for _, rows in self.batches[self._seen :] for row in rows]
        self._seen = len(self.batches)
        return sorted(found, key=repr)

    def stop(self) -> None:
        """Stop the query."""
        self.query.stop()

    def states(self, name: str) -> list[int]:
        """A figure of the query's stateful operator in each micro-batch of this run."""
        progresses = [p for p in self.query.recentProgress if p["stateOperators"] and "addBatch" in p["durationMs"]]
        return [int(progress["stateOperators"][0][name]) for progress in progresses]


def timed(rows: DataFrame, delay: str) -> DataFrame:
    """`value` as seconds of event time, with a watermark."""
    return rows.withColumn("time", F.timestamp_seconds("value")).withWatermark("time", delay)


def five(name: str = "time") -> Column:
    """A window of five seconds."""
    return F.window(name, "5 seconds").alias("window")


def counts(rows: DataFrame, delay: str = "10 seconds") -> DataFrame:
    """How many values each five seconds have: (start in seconds, count)."""
    counted = timed(rows, delay).groupBy(five()).agg(F.count("*").alias("count"))
    return counted.select(F.col("window.start").cast("long").alias("start"), "count")


def _plain(value: Any) -> Any:
    return tuple(_plain(item) for item in value) if isinstance(value, tuple) else value
