"""Queries that read the newest first behind a backlog, and plain Spark over the same events."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from tests.support.attempt import settings as on_pyslash

START = 1_700_000_000
SCHEMA = "at timestamp, key string, value int"


def records(first: int, count: int) -> list[bytes]:
    """Events in JSON, in the order of their times, a hundredth of a second apart."""
    made = []
    for number in range(first, first + count):
        at = datetime.fromtimestamp(START + number * 0.01, UTC).isoformat()
        made.append(json.dumps({"at": at, "key": f"k{number % 7}", "value": number}).encode())
    return made


def by_key(events: DataFrame) -> DataFrame:
    """Windows of eight seconds, of which a micro-batch of a thousand events has one or two."""
    timed = events.withWatermark("at", "1 second").groupBy(F.window("at", "8 seconds"), "key")
    return timed.agg(F.count("*").alias("count"), F.sum("value").alias("sum"), F.max("value").alias("greatest"))


@dataclass
class Given:
    """What a query has given: of each micro-batch its rows and its figures."""

    batches: list[list[Any]] = field(default_factory=list)
    progress: list[dict[str, Any]] = field(default_factory=list)
    watermarks: list[str] = field(default_factory=list)

    @property
    def last(self) -> dict[Any, Any]:
        """The row of each group that came last, as a table would have it."""
        return {(row["window"]["start"], row["key"]): row[1:5] for batch in self.batches for row in batch}


class SinkError(Exception):
    """What a job's own function raises in these tests."""


def settings(spark: SparkSession, **conf: str) -> AbstractContextManager[None]:
    """`spark.slash.*` while a query starts, on pyslash; underscores are dots."""
    return on_pyslash(spark, {f"spark.slash.{name.replace('_', '.')}": value for name, value in conf.items()})


def run(rows: DataFrame, folder: Path, output: str, given: Given, **conf: str) -> None:
    """All that the source has, from its checkpoint if there is one."""
    with settings(rows.sparkSession, **conf):
        writer = rows.writeStream.option("checkpointLocation", str(folder)).outputMode(output)
        query = writer.foreachBatch(lambda batch, _: given.batches.append(batch.collect()))
        started = query.trigger(availableNow=True).start()
        started.awaitTermination()
        if conf["mode"] == "require":
            given.progress += pyslash.progress(started)
        given.watermarks += [one["eventTime"]["watermark"] for one in started.recentProgress if one["eventTime"]]


def run_until(epoch: int, rows: DataFrame, folder: Path, given: Given) -> None:
    """The newest first, until the sink fails in this micro-batch."""

    def take(batch: DataFrame, number: int) -> None:
        if number >= epoch:
            raise SinkError
        given.batches.append(batch.collect())

    with settings(rows.sparkSession, mode="require", backlog="fresh-first"):
        writer = rows.writeStream.option("checkpointLocation", str(folder)).outputMode("append")
        with pytest.raises(StreamingQueryException, match="SinkError"):
            writer.foreachBatch(take).trigger(availableNow=True).start().awaitTermination()


def offsets(folder: Path) -> list[dict[str, Any]]:
    """The source's offsets in Spark's log, by micro-batch."""
    files = sorted((folder / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [json.loads(path.read_text().splitlines()[-1]) for path in files]
