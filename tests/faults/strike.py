"""Faults as data: what befalls which process, at which named point of which epoch, once.

A point is reached in the driver (`points`) or in a task; the marker, a file that is created exclusively, makes the
first one there strike and nobody else, also after the driver itself has been killed and started again.

    python -m tests.faults.strike FILE

is how a point inside an executor's JVM strikes (`inside`): the exit status is 1 where the task is to fail.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict, dataclass
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
    "put back": "the query fails, and is started again on a copy of its checkpoint from the epoch before",
}
# The same for what strikes inside a task or an agent alone.
FAULTS_INSIDE = {
    "kill peer": "kill -9 of the agent of another executor, which this one reads from",
    "straggle": "an attempt of a task stands still until Spark has run another one and kills it",
    "damage": "a range of a block is not what its agent holds, so that folding fails in its middle",
}
STRAGGLE_SECONDS = 60
LOGGING_SECONDS = 10
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
# With spark.slash.ingest=files: a task of the update has published its block, and nobody knows yet.
PUBLISH_POINT = "after publish, in the task"
# Inside executors' JVMs and agents, where `inside` puts them.
PUBLISHED_POINT = "block published"
READING_POINTS = {
    PUBLISHED_POINT: "an update task has published its block, and nobody knows yet",
    "blocks taken": "a task has the blocks that it is to fold or merge, and has folded nothing",
    "blocks folded": "a task is about to give the rows of what it has folded",
}
# The same, where nothing is read in place.
GATHER_POINTS = {
    "landing made": "an agent has room for what a task wants to read, and has brought nothing",
    "mid-landing": "an agent has brought a range of another agent's block, and others not yet",
    "peer landed": "all that other agents have is in the landing, and nothing of it is merged",
}
# In an agent: it has folded blocks of earlier epochs into one, which takes their place with the next commit.
COMPACTED_POINT = "blocks compacted"
# In an agent: it has folded the blocks of an epoch that is not committed, and the driver does not know yet.
FOLDED_POINT = "epoch folded"
# The sink has all rows of the epoch, and nobody else sees them yet: of Spark's sink of files, in the driver's JVM.
SINK_POINT = "before the sink's commit"
# Of a chain: the operator below is committed and merged, the one above it has not begun.
BETWEEN_POINT = "between operators"


@dataclass(frozen=True)
class Strike:
    """One fault.

    `operator` is its place in a chain; `victim` is the executor that is struck, if it is not the one that reaches the
    point; `driver` are the pids of the driver's processes; `stop_seconds` is how long a SIGSTOP holds.
    """

    fault: str
    point: str
    epoch: int
    marker: str
    stop_seconds: float = 4
    driver: tuple[int, ...] = ()
    operator: int = 0
    victim: int | None = None

    @classmethod
    def read(cls, order: Path) -> Strike:
        """What `write` has written."""
        return cls(**json.loads(order.read_text()))

    def write(self, order: Path) -> None:
        """Have processes that look for this file strike; all or nothing."""
        unfinished = order.with_suffix(".new")
        unfinished.write_text(json.dumps(asdict(self)))
        unfinished.rename(order)

    def is_due(self, point: str, epoch: int, operator: int) -> bool:
        """Whether it strikes there. Where nobody reaches its point in its epoch, it strikes in a later one."""
        is_there = (self.point, self.operator) == (point, operator)
        return is_there and self.epoch <= epoch and not os.path.exists(self.marker)

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
        if self.fault in ("exception", "duplicate", "put back"):
            raise RuntimeError(f"the fault of this test, {self.point}")
        if self.fault == "stop agent":
            stop(agent, self.stop_seconds)
        elif self.fault == "straggle":
            time.sleep(STRAGGLE_SECONDS)  # until Spark kills the attempt
        else:
            victims = self._victims(executor, agent)
            if not victims:
                Path(self.marker).unlink()  # nobody was there to be struck
            if self.fault == "kill driver":
                self._let_others_log()
            kill(victims)

    def _let_others_log(self) -> None:
        """Wait while another query of the round has told its source where a micro-batch ends, and not yet Spark's log:
        after a kill in between, Spark puts the next files into the same micro-batch, and the oracle has them in two.
        """
        deadline = time.monotonic() + LOGGING_SECONDS
        checkpoints = list(Path(self.marker).parent.glob("checkpoint-*"))
        while any(map(is_between_logs, checkpoints)) and time.monotonic() < deadline:
            time.sleep(0.01)  # polling files that Spark writes, up to the deadline

    def _victims(self, executor: int, agent: int) -> list[int]:
        match self.fault:
            case "kill worker":
                return workers_of(executor)
            case "kill agent":
                return [agent]
            case "kill peer":
                return peers_of(executor)
            case "kill executor":
                return [executor]
            case "kill driver":
                return list(self.driver)
        raise ValueError(f"{self.fault} kills nobody")

    def in_task(self) -> None:
        """The point is reached in a Python worker of the victim's."""
        if self.claim():
            executor = self.victim or process.nearest_jvm()
            assert executor is not None
            self.befall(executor, agent_of(executor).pid)

    def in_agent(self, peer: AgentDescriptor) -> bool:
        """The point is reached in an agent, which reads from `peer`; whether it is to damage what it has read.

        It strikes where the peer is another agent.
        """
        if peer.pid == os.getpid() or not self.claim():
            return False
        if self.fault != "damage":
            self._befall_own_agent()
        return self.fault == "damage"

    def in_fold(self) -> None:
        """The point is reached in an agent, which folds blocks."""
        if self.claim():
            self._befall_own_agent()

    def _befall_own_agent(self) -> None:
        log = Path(os.readlink("/proc/self/fd/2"))  # in its runtime directory, which is called after its JVM
        self.befall(int(log.parent.name.partition("-")[0]), os.getpid())


def is_between_logs(checkpoint: Path) -> bool:
    """Whether a source of files has a micro-batch that the log of offsets does not have yet."""
    batches = entries(checkpoint / "offsets")
    last = (checkpoint / "offsets" / str(batches[-1])).read_text().splitlines()[2:] if batches else []
    logged = [json.loads(line)["logOffset"] for line in last if line.startswith("{")]
    read = [entries(log)[-1:] for log in sorted(checkpoint.glob("sources/*"))]
    return any(ids > [offset] for ids, offset in zip(read, logged + [-1] * len(read), strict=False))


def entries(log: Path) -> list[int]:
    """The numbers of what one of Spark's logs has."""
    return sorted(int(path.name) for path in log.glob("[0-9]*") if path.name.isdigit())


def kill(pids: list[int]) -> None:
    """SIGKILL; the caller itself, if it is among them, at last."""
    for pid in sorted(pids, key=lambda pid: pid == os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def stop(pid: int, seconds: float) -> None:
    """SIGSTOP now, SIGCONT later: by a process that outlives the caller, who may be the one that is stopped."""
    subprocess.Popen(
        ["/bin/sh", "-c", f"sleep {seconds}; kill -CONT {pid}"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.kill(pid, signal.SIGSTOP)


def agent_of(executor: int) -> AgentDescriptor:
    """The agent of an executor: its descriptor lies in the runtime directory of that JVM."""
    name = f"{executor}-{process.start_time(executor)}"
    (found,) = (path for root in default_roots() for path in (root / name).glob("*.json"))
    return AgentDescriptor.from_json(found.read_bytes())


def peers_of(executor: int) -> list[int]:
    """The agents of the other executors of an application."""
    own = agent_of(executor)
    name = Path(own.socket).with_suffix(".json").name
    found = [
        AgentDescriptor.from_json(path.read_bytes()) for root in default_roots() for path in root.glob(f"*/{name}")
    ]
    return [agent.pid for agent in found if agent != own and process.is_alive(agent.pid, agent.start_time)]


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


if __name__ == "__main__":
    try:
        Strike.read(Path(sys.argv[1])).in_task()
    except RuntimeError:
        sys.exit(1)
