"""Agents whose arenas are small, so that a query's state is larger."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.sql import SparkSession

from pyslash.agent.process.runtime import default_roots
from tests.agent.conftest import wait_until_gone
from tests.support.attempt import settings


@contextmanager
def arenas_of(spark: SparkSession, size: int, spill: Path) -> Iterator[None]:
    """The session's agents have arenas of so many bytes, and spill to a folder."""
    end_agents(spark)
    with settings(spark, {"spark.slash.arena.size": str(size), "spark.slash.spill.dir": str(spill)}):
        yield
    end_agents(spark)


def end_agents(spark: SparkSession) -> None:
    """The session's agents: the next ones start with the arena that is configured then."""
    assert spark._jvm is not None
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    for path in (path for root in default_roots() for path in root.glob(f"{jvm}-*/*.json")):
        with suppress(FileNotFoundError, ProcessLookupError):  # one that ends by itself just now
            pid = json.loads(path.read_text())["pid"]
            os.kill(pid, signal.SIGKILL)
            assert wait_until_gone(pid)
