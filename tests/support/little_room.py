"""Agents whose arenas are small, and a stream whose state is larger."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from pyslash.agent.process.runtime import default_roots
from tests.agent.conftest import wait_until_gone
from tests.support.attempt import settings
from tests.support.stream import Stream, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
ARENA_BYTES = 4 << 20  # a quarter of it is its tables


def long_lived(spark: SparkSession, folder: Path, keys: int, batches: int) -> Stream:
    """Each batch has a row of each key, and nothing is over before the last one."""
    made = Stream(spark, folder, SCHEMA, delay_seconds=1000)
    for batch in range(batches):
        times = [seconds(1000 + 10 * batch)] * keys
        made.add(pa.table({"ts": times, "k": range(keys), "v": [key * batch for key in range(keys)]}, SCHEMA))
    made.add(pa.table({"ts": [seconds(5000)], "k": [0], "v": [0]}, SCHEMA))
    return made


@contextmanager
def little_room(spark: SparkSession, spill: Path) -> Iterator[None]:
    """The session's agents have arenas of `ARENA_BYTES`, and spill to a folder."""
    _end_agents(spark)
    with settings(spark, {"spark.slash.arena.size": str(ARENA_BYTES), "spark.slash.spill.dir": str(spill)}):
        yield
    _end_agents(spark)


def _end_agents(spark: SparkSession) -> None:
    """The session's agents: the next ones start with the arena that is configured then."""
    assert spark._jvm is not None
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    for path in (path for root in default_roots() for path in root.glob(f"{jvm}-*/*.json")):
        with suppress(FileNotFoundError, ProcessLookupError):  # one that ends by itself just now
            pid = json.loads(path.read_text())["pid"]
            os.kill(pid, signal.SIGKILL)
            assert wait_until_gone(pid)
