"""Faults as data: what befalls which process, at which named point of which epoch, once.

A point is reached in the driver (`points`) or in a task; the marker, a file that is created exclusively, makes the
first one there strike and nobody else, also after the driver itself has been killed and started again.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pyslash.agent.process.runtime import default_roots
from pyslash.protocol import process
from pyslash.protocol.descriptor import AgentDescriptor

# What may befall a process, with what each is meant to show.
FAULTS = {
    "exception": "a task fails and is tried again, or the batch fails and the query is started again",
    "kill worker": "kill -9 of an executor's Python workers",
    "kill agent": "kill -9 of the process that owns an executor's state",
    "kill executor": "kill -9 of an executor's JVM",
    "kill driver": "kill -9 of the driver, Python and JVM; the application is started again",
    "stop agent": "SIGSTOP of an agent for longer than a call may take; SIGCONT later",
    "duplicate": "a task fails when it has published its block; its next attempt publishes one more",
    "zombie": "every task of the update publishes once more when its epoch has moved on",
}
DRIVER_POINTS = (
    "before update",
    "after publish",
    "mid-checkpoint",
    "after checkpoint",
    "after manifest",
    "after commit, before its answer",
    "after commit",
    "between the sink's write and Spark's commit",
    "before release",
)
TASK_POINTS = ("mid-update", "mid-merge")
# With spark.slash.strategy=repartition, "after publish" lies between its two jobs; this is in the second one.
OWNER_POINT = "mid-own"
# With spark.slash.ingest=arrow: a task of the update has published its block, and nobody knows yet.
PUBLISH_POINT = "after publish, in the task"


@dataclass(frozen=True)
class Strike:
    """One fault. `driver` are the pids of the driver's processes; `stop_seconds` is how long a SIGSTOP holds."""

    fault: str
    point: str
    epoch: int
    marker: str
    stop_seconds: float = 4
    driver: tuple[int, ...] = ()

    def claim(self) -> bool:
        """Whether the caller is the one that strikes."""
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True

    def befall(self, executor: int, agent: int) -> None:
        """Do it: to an executor (pid of its JVM), its agent or its workers, or to the driver.

        Raises:
            RuntimeError: the fault is an exception.
        """
        if self.fault in ("exception", "duplicate"):
            raise RuntimeError(f"the fault of this test, {self.point}")
        if self.fault == "stop agent":
            stop(agent, self.stop_seconds)
        else:
            victims = {
                "kill worker": workers_of(executor),
                "kill agent": [agent],
                "kill executor": [executor],
                "kill driver": list(self.driver),
            }
            if not victims[self.fault]:
                Path(self.marker).unlink()  # nobody was there to be struck
            kill(victims[self.fault])

    def in_task(self) -> None:
        """The point is reached in a Python worker of the victim's."""
        if self.claim():
            executor = process.nearest_jvm()
            assert executor is not None
            self.befall(executor, agent_of(executor).pid)


def kill(pids: list[int]) -> None:
    """SIGKILL; the caller itself, if it is among them, at last."""
    for pid in sorted(pids, key=lambda pid: pid == os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def stop(pid: int, seconds: float) -> None:
    """SIGSTOP now, SIGCONT later: by a process that outlives the caller."""
    os.kill(pid, signal.SIGSTOP)
    subprocess.Popen(
        ["/bin/sh", "-c", f"sleep {seconds}; kill -CONT {pid}"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def agent_of(executor: int) -> AgentDescriptor:
    """The agent of an executor: its descriptor lies in the runtime directory of that JVM."""
    name = f"{executor}-{process.start_time(executor)}"
    (found,) = (path for root in default_roots() for path in (root / name).glob("*.json"))
    return AgentDescriptor.from_json(found.read_bytes())


def executor_of(agent: AgentDescriptor) -> int:
    """The pid of the JVM that an agent belongs to: its runtime directory is called after it."""
    return int(Path(agent.log).parent.name.partition("-")[0])


def workers_of(executor: int) -> list[int]:
    """The Python workers that the daemons of an executor have forked."""
    children = all_children()
    daemons = [pid for pid in children[executor] if b"pyspark.daemon" in command_of(pid)]
    return [worker for daemon in daemons for worker in children[daemon]]


def all_children() -> dict[int, list[int]]:
    """The children of every process, as of now."""
    children: dict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit():
            children[process.parent_of(int(name))].append(int(name))
    return children


def command_of(pid: int) -> bytes:
    """The command line of a process, empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
