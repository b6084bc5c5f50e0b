"""One application on a master of its own: agents and executors are killed while a stream runs; prints what came of it.

python -m tests.faults.standby_job MASTER FOLDER CASE...   a case: durability:victim[+more]:point

Of `executor+agent+agent`, each agent that holds blocks dies as soon as the shares that the loss before it has left with
one copy have their replicas again; the sink waits until the last one has died, as a stream without new rows does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import pyslash
from pyslash.cluster.coordinator import Coordinator
from pyslash.cluster.replicas import Replicas
from pyslash.protocol import process
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.state.manifest import ManifestLog
from tests.faults.application import session
from tests.support.stream import Stream, differences, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
ROWS, BATCHES = 3000, 6
STRIKE = 4  # the call of the named point at which the victims die
POINTS = {
    "after update": (Replicas, "send", False),
    "after replica": (ManifestLog, "create", False),
    "after manifest": (ManifestLog, "create", True),
    "after commit": (Coordinator, "commit", True),
    "before release": (Coordinator, "release", False),
}


def jvm_of(agent: AgentDescriptor) -> int:
    """The executor whose process the agent belongs to: its runtime directory has the name."""
    return int(Path(agent.socket).parent.name.partition("-")[0])


def kill(pids: list[int]) -> None:
    """SIGKILL, and wait until they are gone."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(process.start_time(pid) is not None for pid in pids):
        time.sleep(0.01)  # polling other processes' state, up to the deadline


VICTIMS: dict[str, Callable[[list[AgentDescriptor]], list[int]]] = {
    "agent": lambda agents: [agents[0].pid],
    "agents": lambda agents: [agent.pid for agent in agents],
    "executor": lambda agents: [jvm_of(agents[0])],
    "nobody": lambda agents: [],
}
SYNC_SECONDS = 60


class Struck:
    """Patches the point, so that the victims die once."""

    def __init__(self, victim: str, point: str) -> None:
        self._victim, *self._more = victim.split("+")
        self._struck_all = threading.Event()
        if not self._more:
            self._struck_all.set()
        self._recovered = False
        self._lost_at = 0.0
        self._run, self._logged = 0, (0.0, 0)  # of the last manifest; the last loss, and the run that it struck
        self.exposed_ms: list[int] = []  # after each loss, until all shares had replicas
        self.logged_ms: list[int] = []  # after the last one, until the next manifest, which once came first
        self._owner, self._name, self._after = POINTS[point]
        self._calls = 0
        self._agents: list[AgentDescriptor] = []

    def __enter__(self) -> Struck:
        real: Callable[..., Any] = getattr(self._owner, self._name)
        commit = Coordinator.commit

        def remember(coordinator: Coordinator, *arguments: Any) -> Any:
            answer = commit(coordinator, *arguments)
            self._run = arguments[0].run
            if self._logged[0] and self._run > self._logged[1]:
                self.logged_ms.append(round((time.monotonic() - self._logged[0]) * 1000))
                self._logged = (0.0, 0)
            # Those that hold something: the loss of any of them would be seen.
            self._agents = sorted({block.agent for block in coordinator.version.blocks()}, key=lambda one: one.pid)
            return answer

        def faulty(owner: Any, *arguments: Any) -> Any:
            self._calls += 1
            strike = self._calls == STRIKE
            if strike and not self._after:
                self._strike(self._victim)
            answer = (remember if real is commit else real)(owner, *arguments)
            if strike and self._after:
                self._strike(self._victim)
            return answer

        resync, repair = Replicas.resync, Coordinator.repair

        def recovered(*arguments: Any) -> Any:
            answer = repair(*arguments)
            self._recovered = True
            return answer

        def then_strike(replicas: Replicas, *arguments: Any, **named: Any) -> int:
            size = resync(replicas, *arguments, **named)
            self._agents = sorted({block.agent for block in replicas.version.blocks()}, key=lambda one: one.pid)
            if self._lost_at and not replicas.missing():
                self.exposed_ms.append(round((time.monotonic() - self._lost_at) * 1000))
                self._lost_at = 0.0
                if self._more:
                    self._strike(self._more.pop(0))
                if not self._more:
                    self._struck_all.set()
            return size

        self._patches: list[Any] = [
            patch.object(Coordinator, "commit", remember),
            patch.object(self._owner, self._name, faulty),
            patch.object(Replicas, "resync", then_strike),
            patch.object(Coordinator, "repair", recovered),
        ]
        for one in self._patches:
            one.start()
        return self

    def _strike(self, victim: str) -> None:
        self._lost_at = time.monotonic()
        self._logged = (self._lost_at, self._run)
        kill(VICTIMS[victim](self._agents))

    def wait(self) -> None:
        """Once the query has recovered: until all losses have been replicated again, but for the last one."""
        if self._recovered and not self._struck_all.wait(SYNC_SECONDS):
            self._struck_all.set()
            raise TimeoutError(f"no replica {SYNC_SECONDS} s after a loss")

    def __exit__(self, *_: object) -> None:
        for one in reversed(self._patches):
            one.stop()


def run_case(stream: Stream, folder: Path, durability: str, victim: str, point: str) -> dict[str, Any]:
    """The rows of one query under one fault, against Spark's."""
    spark = stream.spark
    window = F.window("ts", "10 seconds", "5 seconds")
    calls = [F.sum("v"), F.count("*"), F.max("v")]
    expected = stream.expected(window, [F.col("k")], calls)
    spark.conf.set("spark.slash.mode", "require")
    spark.conf.set("spark.slash.durability", durability)
    pyslash.enable(spark)
    batches: dict[int, list[Any]] = {}

    errors: list[str] = []
    figures: list[dict[str, Any]] = []
    with Struck(victim, point) as struck:

        def sink(rows: DataFrame, epoch: int) -> None:
            batches[epoch] = rows.collect()
            struck.wait()

        for _ in range(2):
            counts = stream.read().groupBy(window, "k").agg(*calls)
            writer = counts.writeStream.option("checkpointLocation", str(folder / "checkpoint")).foreachBatch(sink)
            query = writer.trigger(availableNow=True).start()
            try:
                query.awaitTermination(900)
                break
            except StreamingQueryException as failure:
                errors.append(str(failure))
            finally:
                figures += pyslash.progress(query)
    pyslash.disable()
    error = errors[0] if errors else ""
    rows = [row for batch in batches.values() for row in batch]
    return {
        "error": error,
        "errors": errors,
        "exposed_ms": struck.exposed_ms,
        "logged_ms": struck.logged_ms,
        "rows": len(rows),
        "differences": [] if error else list(differences(rows, expected, 1))[:5],
        "agents": max(one["agents"] for one in figures),
        "files": len(list((folder / "checkpoint" / "slash" / "blocks").glob("*"))),
        **{name: sum(one[name] for one in figures) for name in SUMS},
    }


SUMS = ("recoveries", "promotions", "restored_files", "replica_bytes", "checkpoint_bytes")


def main(master: str, folder: Path, cases: list[str]) -> None:
    """Run each case; the last line is the list of findings."""
    spark = session(master, 2, {"spark.slash.arena.size": "128m"})
    stream = Stream(spark, folder, SCHEMA, delay_seconds=15)
    for batch in range(BATCHES):
        times = [seconds(1000 + 7 * batch + i / ROWS * 10) for i in range(ROWS)]
        stream.add(pa.table({"ts": times, "k": [i * 7 % 300 for i in range(ROWS)], "v": list(range(ROWS))}, SCHEMA))
    stream.add(pa.table({"ts": [seconds(5000)], "k": [0], "v": [0]}, SCHEMA))
    findings = []
    started = time.monotonic()
    for index, case in enumerate(cases):
        print(case, flush=True)
        findings.append(run_case(stream, folder / f"case-{index}", *case.split(":")))
        print(f"{time.monotonic() - started:.1f} s", flush=True)
    print(json.dumps(findings))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
