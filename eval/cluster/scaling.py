"""Weak and strong scaling: the same workload on 1, 2, 4, ... hosts, every figure into one results file.

Weak: each node brings its own rows, so the rows grow with the nodes. Strong: all steps have the same rows. Keys,
windows and the span of event time stay in both. Engines have the cluster to themselves, one after the other, each as
one application with its own warm-up and check against Spark batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval.cluster.hosts import Host
from eval.records import note
from eval.session import Comparison, Outcome, Session
from eval.workloads import Workload

KINDS = ("weak", "strong")
# A driver's process tree has no part in what executors of a cluster used.
_NOT_OF_EXECUTORS = ("cpu_seconds", "peak_bytes", "cycles")


@dataclass(frozen=True)
class Step:
    """`nodes` of the hosts, in the order of the file, with `workload`."""

    kind: str
    nodes: int
    workload: Workload

    @property
    def title(self) -> str:
        """As reports have it."""
        return f"{self.kind} scaling, {self.nodes} node{'s' * (self.nodes != 1)}"


@dataclass(frozen=True)
class Measurement:
    """What all steps share. `over` gives the URL of a master that has these hosts for its workers."""

    hosts: Sequence[Host]
    engines: Sequence[str]
    over: Callable[[Sequence[Host]], AbstractContextManager[str]]
    session: Session
    driver: str
    executor_memory: str

    def run(self, step: Step) -> list[Outcome]:
        """Every engine on one step; its runs are in the session's results file when this returns."""
        hosts = self.hosts[: step.nodes]
        outcomes = []
        with self.over(hosts) as master:
            for engine in self.engines:
                part = self.session.results.with_suffix(".part")
                part.unlink(missing_ok=True)
                conf = {**self._conf(master, hosts), **self.session.conf}
                with replace(self.session, results=part, conf=conf) as session:
                    outcomes += session.compare(Comparison(step.title, step.workload, (engine,)))
                collect(part, self.session.results, step, hosts)
        return outcomes

    def _conf(self, master: str, hosts: Sequence[Host]) -> dict[str, str]:
        # Executors of one size; a host with more slots lends only as many.
        slots = min(host.slots for host in hosts)
        return {
            "spark.master": master,
            "spark.driver.host": self.driver,
            "spark.driver.bindAddress": self.driver,
            "spark.cores.max": str(slots * len(hosts)),
            "spark.executor.cores": str(slots),
            "spark.executor.instances": str(len(hosts)),
            "spark.executor.memory": self.executor_memory,
            "spark.sql.shuffle.partitions": str(slots * len(hosts)),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "180s",
        }


def node_counts(hosts: int) -> list[int]:
    """1, 2, 4, ... and all of them.

    >>> node_counts(6)
    [1, 2, 4, 6]
    """
    counts = [1 << power for power in range(hosts.bit_length()) if 1 << power <= hosts]
    return counts if counts[-1] == hosts else [*counts, hosts]


def steps(kinds: Sequence[str], nodes: Sequence[int], one_node: Workload, strong: Workload) -> Iterator[Step]:
    """All steps: `one_node` is what each node brings in weak scaling, `strong` what they share in strong scaling."""
    for kind in kinds:
        for count in nodes:
            workload = replace(one_node, rows=one_node.rows * count) if kind == "weak" else strong
            yield Step(kind, count, workload)


def collect(part: Path, results: Path, step: Step, hosts: Sequence[Host]) -> None:
    """Append a step's lines to the results, with the step and its hosts in each; `part` is gone then."""
    if not part.exists():
        return
    cluster = ", ".join(map(str, hosts))
    for line in part.read_text().splitlines():
        record: dict[str, Any] = json.loads(line)
        for name in _NOT_OF_EXECUTORS:
            record.pop(name, None)
        machine = {**record.pop("machine", {}), "cluster": cluster}
        session = record.pop("session", "")
        note(results, session, **record, nodes=step.nodes, scaling=step.kind, machine=machine)
    part.unlink()
