"""Finding agents before any update has run: a job whose tasks start their executor's agent and name it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import SparkSession

from pyslash.agent.descriptor import AgentDescriptor
from pyslash.errors import RowBridgeUnavailableError
from pyslash.tasks.arrow_update import executor_host
from pyslash.tasks.row_bridge import RowBridge


@dataclass(frozen=True)
class FindAgent:
    """A function for `mapInArrow`: the descriptor of its executor's agent, as JSON."""

    secret: bytes = field(repr=False)
    arena_bytes: int
    driver_host: str | None
    start_timeout_seconds: float

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs in the executor.

        Raises:
            AgentStartError: the executor's agent could not be started.
        """
        from pyslash.agent.launch import ensure_from_worker

        for _ in batches:
            agent = ensure_from_worker(
                self.secret, self.arena_bytes, executor_host(self.driver_host), None, self.start_timeout_seconds
            )
            yield pa.record_batch([pa.array([agent.to_json()])], names=["agent"])


def find_agents(
    session: SparkSession, secret: bytes, arena_bytes: int, start_timeout: int, by_worker: bool = False
) -> list[AgentDescriptor]:
    """The agents of the executors that ran the job's tasks, one task a core.

    Args:
        session: whose executors.
        secret: the application's.
        arena_bytes: of an agent that is started.
        start_timeout: seconds for each.
        by_worker: ask the executors' Python workers, which take a second or two to start, instead of their JVMs. A
            worker ends an agent that lives and does not answer; a JVM is content with a process that lives.
    """
    tasks = session.sparkContext.defaultParallelism
    if not by_worker:
        try:
            bridge = RowBridge(session)
        except RowBridgeUnavailableError:
            pass
        else:
            return bridge.agents(tasks, secret, arena_bytes, session.sparkContext.pythonExec, start_timeout)
    find = FindAgent(secret, arena_bytes, session.conf.get("spark.driver.host", None), start_timeout)
    rows = session.range(0, tasks, 1, tasks).mapInArrow(find, "agent string").collect()
    found = {row.agent: AgentDescriptor.from_json(row.agent) for row in rows}
    return [found[text] for text in sorted(found)]


def executors(session: SparkSession) -> int:
    """How many executors the application has now; in local mode the driver is the one."""
    known = session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()
    return max(1, int(known) - 1)
