"""Finds agents before any update has run, by a job whose tasks start their executor's agent and name it."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.spark.job import run_numbered
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.update_spec import AgentSpec


@dataclass(frozen=True)
class FindAgent:
    """A function for a task: returns the descriptor of its executor's agent, as JSON."""

    secret: bytes = field(repr=False)
    arena_bytes: int
    driver_host: str | None
    start_timeout_seconds: float
    tcp: bool = True

    def __call__(self, _: int) -> str:
        """Runs in the executor.

        Raises:
            AgentStartError: the executor's agent could not be started.
        """
        from pyslash.agent.process.launch import ensure_from_worker

        host = executor_host(self.driver_host)
        return ensure_from_worker(
            self.secret, self.arena_bytes, host, None, self.start_timeout_seconds, self.tcp
        ).to_json()


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
            worker waits for an agent that lives and does not answer; a JVM is content with a process that lives.
    """
    tasks = session.sparkContext.defaultParallelism
    if not by_worker:
        agent = AgentSpec(
            secret=secret,
            arena_bytes=arena_bytes,
            python=session.sparkContext.pythonExec,
            start_timeout_seconds=start_timeout,
        )
        return JvmBridge(session).agents(tasks, agent)
    find = FindAgent(
        secret, arena_bytes, session.conf.get("spark.driver.host", None), start_timeout, has_hosts(session)
    )
    return [AgentDescriptor.from_json(agent) for agent in sorted(set(run_numbered(session, tasks, find)))]


def has_hosts(session: SparkSession) -> bool:
    """Whether executors may be on other hosts; in local mode they are the driver itself."""
    master: str = session.sparkContext.master
    return not (master == "local" or master.startswith("local["))


def executors(session: SparkSession) -> int:
    """How many executors the application has now; in local mode the driver is the one. None once it has stopped."""
    context = session.sparkContext._jsc
    return max(1, int(context.sc().getExecutorMemoryStatus().size()) - 1) if context is not None else 0


def executor_host(driver_host: str | None) -> str:
    """The address that other hosts reach this executor at: the one from which it reaches the driver."""
    configured = os.environ.get("SPARK_LOCAL_IP")
    if configured or driver_host is None:
        return _bare(configured or "127.0.0.1")
    family, _, _, _, address = socket.getaddrinfo(_bare(driver_host), 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)  # a datagram socket: chooses the route, sends nothing
        return str(probe.getsockname()[0])


def _bare(host: str) -> str:
    """Without the brackets that Spark puts around an IPv6 address: sockets take none."""
    return host.removeprefix("[").removesuffix("]")
