"""Attempts at one query: started on a checkpoint, by plain Spark or by pyslash, until its input ends or it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import pyslash
from pyslash.spark.session import changed
from tests.support.stream import Stream, seconds

SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("other", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int64())]
)
DELAY_SECONDS = 10
# Seconds, key and value of each row, with late ones around both of Spark's watermarks.
BATCHES: list[list[tuple[int, str, int]]] = [
    [(1005, "a", 1), (1006, "b", 2), (1009, "a", 4)],
    [(1040, "a", 8), (1062, "b", 16), (1001, "a", 32)],
    [(1012, "a", 64), (1033, "b", 128), (1045, "b", 256), (1052, "a", 512)],
    [(1013, "a", 1024), (1041, "a", 2048), (1090, "b", 4096), (1080, "a", 8192)],
]


@dataclass
class Attempt:
    """What an attempt gave: its calls of the sink's function as (batch id, rows), Spark's watermarks, its error."""

    batches: list[tuple[int, list[str]]] = field(default_factory=list)
    watermarks: list[tuple[int, str | None]] = field(default_factory=list)
    error: StreamingQueryException | None = None
    query: StreamingQuery | None = None

    @property
    def ran_on_pyslash(self) -> bool:
        """Whether pyslash has run one of its batches to the end."""
        assert self.query is not None
        return pyslash.progress(self.query) != []


def make_stream(spark: SparkSession, folder: Path, batches: Sequence[Sequence[tuple[int, str, int]]]) -> Stream:
    """A stream of these micro-batches."""
    stream = Stream(spark, folder, SCHEMA, DELAY_SECONDS)
    for rows in batches:
        add(stream, rows)
    return stream


def add(stream: Stream, rows: Sequence[tuple[int, str, int]]) -> None:
    """Append a micro-batch; `other` is the event time and 5 s."""
    times, keys, values = zip(*rows, strict=True)
    columns = [[seconds(at) for at in times], [seconds(at + 5) for at in times], list(keys), list(values)]
    stream.add(pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA))


@contextmanager
def settings(spark: SparkSession, values: dict[str, str]) -> Iterator[None]:
    """These settings of the session, and pyslash enabled."""
    pyslash.enable(spark)
    try:
        with changed(spark, values):
            yield
    finally:
        pyslash.disable()


def attempt(
    df: DataFrame,
    checkpoint: Path,
    mode: str = "require",
    fail_in: int | None = None,
    output: str = "append",
    **conf: str,
) -> Attempt:
    """Start the query and wait for its end.

    Args:
        df: what the query writes.
        checkpoint: its checkpoint location.
        mode: `spark.slash.mode`.
        fail_in: the batch in which the sink's function raises, once it has the rows.
        output: the output mode.
        conf: of `spark.slash.*`.
    """
    spark, made = df.sparkSession, Attempt()

    def take(rows: DataFrame, epoch: int) -> None:
        made.batches.append((epoch, in_words(rows.collect())))
        if epoch == fail_in:
            raise RuntimeError("the sink is out of order")

    values = {f"spark.slash.{name.replace('_', '.')}": value for name, value in {"mode": mode, **conf}.items()}
    with settings(spark, values):
        writer = df.writeStream.option("checkpointLocation", str(checkpoint)).outputMode(output).foreachBatch(take)
        made.query = writer.trigger(availableNow=True).start()
        try:
            assert made.query.awaitTermination(900)
        except StreamingQueryException as error:
            made.error = error
        made.watermarks = [(one.batchId, one.eventTime.get("watermark")) for one in made.query.recentProgress]
    return made


def check_repeated(stream: Stream, query: Callable[[DataFrame], DataFrame], folder: Path, epoch: int = 2) -> None:
    """An epoch that comes again behind its manifest has the same rows, and all are those of plain Spark."""
    expected = attempt(query(stream.read()), folder / "plain", "off").batches
    first = attempt(query(stream.read()), folder / "ours", fail_in=epoch)
    assert first.error is not None
    second = attempt(query(stream.read()), folder / "ours")
    assert second.batches[0] == first.batches[-1]
    assert [*first.batches[:-1], *second.batches] == expected


def in_words(rows: list[Any]) -> list[str]:
    """Rows in an order and form that can be compared and read."""
    return sorted(map(repr, rows))
