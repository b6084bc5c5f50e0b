"""A query in this process, on the session of the test run, whose sink keeps what it was given."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from pyslash.cluster.coordinator import Coordinator
from pyslash.driver.start import hook
from tests.support.stream import Stream

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
Rows = dict[int, list[tuple[object, ...]]]


def counted(rows: DataFrame, *aggregates: str) -> DataFrame:
    """What the query computes: these aggregates, or its own."""
    of = [F.expr(one) for one in aggregates or ("count(*)", "sum(v)")]
    return rows.groupBy(F.window("ts", "10 seconds", "5 seconds"), "k").agg(*of)


def start(
    stream: Stream, rows: Rows, before_sink: Callable[[int], None] = lambda epoch: None, aggregates: Sequence[str] = ()
) -> StreamingQuery:
    """The query, with other aggregates if there are any; `rows` gets what each epoch has emitted last."""

    def sink(batch: DataFrame, epoch: int) -> None:
        before_sink(epoch)
        rows[epoch] = sorted((r[0].start, *r[1:]) for r in batch.collect())

    writer = counted(stream.read(), *aggregates).writeStream.option(
        "checkpointLocation", str(stream.folder / "checkpoint")
    )
    return writer.foreachBatch(sink).trigger(availableNow=True).start()


def emitted(rows: Rows) -> list[tuple[object, ...]]:
    """Rows of all epochs."""
    return sorted(row for batch in rows.values() for row in batch)


def expected(stream: Stream) -> list[tuple[object, ...]]:
    """The oracle's."""
    window = F.window("ts", "10 seconds", "5 seconds")
    rows = stream.expected(window, [F.col("k")], [F.count("*"), F.sum("v")])
    return sorted((row[0].start, *row[1:]) for row in rows)


def kill_agents(coordinator: Coordinator) -> None:
    """All that hold state of the query."""
    for agent in coordinator.agents:
        os.kill(agent.pid, signal.SIGKILL)


def failed_at(stream: Stream, rows: Rows, epoch: int) -> None:
    """Run until this epoch's rows would reach the sink; then all agents are killed."""

    def fail(reached: int) -> None:
        if reached == epoch:
            raise RuntimeError("between the sink and Spark's commit")

    query = start(stream, rows, fail)
    with pytest.raises(StreamingQueryException, match="between the sink"):
        query.awaitTermination(900)
    runner: Any = hook.runner_of(query)
    kill_agents(runner.operators[0].state.coordinator)
