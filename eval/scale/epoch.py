"""One epoch on made-up executors: update, fold, commit, merge, each executor in its turn; and what it has cost whom."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eval.scale.executors import Executor
from eval.scale.gil import Sampler
from eval.scale.load import Load
from eval.scale.merge import Gathered, Heads, Merged, Prefixes, Tasks, cuts


@dataclass(frozen=True)
class Chain:
    """CPU milliseconds of the driver, of each update task, each agent, each merge task, always in the same order."""

    driver: float
    updates: list[float]
    agents: list[float]
    merges: list[float]


def longest(epochs: Sequence[Chain]) -> dict[str, float]:
    """The slowest of each, by the median of its epochs: its work is the same in all, what differs is the machine's."""

    def slowest(of_epochs: list[list[float]]) -> float:
        return max(float(statistics.median(of_one)) for of_one in zip(*of_epochs, strict=True))

    phases = {
        "driver_ms": statistics.median(one.driver for one in epochs),
        "update_ms": slowest([one.updates for one in epochs]),
        "busiest_agent_ms": slowest([one.agents for one in epochs]),
        "merge_ms": slowest([one.merges for one in epochs]),
    }
    return {**phases, "span_ms": sum(phases.values())}


@dataclass(frozen=True)
class Laboratory:
    """The executors, and the merge tasks of each."""

    members: list[Executor]
    tasks: list[Tasks]
    tasks_each: int
    fold: bool
    said: list[str]
    """What could not be seen as wanted."""

    def epoch(self, number: int, load: Load) -> tuple[dict[str, Any], Chain]:
        """The figures of a `Row`, and those that its chain is made of."""
        written = [
            member.write(number, load.batches(number, index, len(self.members)))
            for index, member in enumerate(self.members)
        ]
        blocks = [[head for head, _ in of_member] for of_member in written]
        agents, driver = _Cpu(self.members), time.thread_time()
        fold_seconds = [0.0]
        if self.fold:
            folds = [member.fold(number, of_member) for member, of_member in zip(self.members, blocks, strict=True)]
            blocks, fold_seconds = [folded for folded, _ in folds], [seconds for _, seconds in folds]
        fold_cpu = agents.lap()
        heads: Heads = [
            (member.agent, member.commit(number, of_member))
            for member, of_member in zip(self.members, blocks, strict=True)
        ]
        driver, commit_cpu = time.thread_time() - driver, agents.lap()
        served = self._served()
        agents.lap()
        merges = self._merges(heads)
        merge_cpu = agents.lap()
        requests = [now - before for before, now in zip(served, self._served(), strict=True)]
        for member in self.members:
            member.free()
        self._check(load, [merged for one in merges for merged in one.merged])
        gil = [(one.gil_share * one.seconds * 1e3, one.gil_share) for one in merges if one.gil_share is not None]
        chain = Chain(
            driver * 1e3,
            [seconds * 1e3 for of_member in written for _, seconds in of_member],
            list(map(sum, zip(fold_cpu, commit_cpu, merge_cpu, strict=True))),
            [merged.cpu_seconds * 1e3 for one in merges for merged in one.merged],
        )
        figures = {
            "calls": statistics.median(sum(task.calls for task in one.gathered) for one in merges),
            "requests": statistics.median(requests),
            "blocks": statistics.median(sum(task.blocks for task in one.gathered) for one in merges),
            "megabytes": statistics.median(sum(task.bytes * 1e-6 for task in one.gathered) for one in merges),
            "agent_cpu_ms": statistics.median(merge_cpu),
            "most_agent_cpu_ms": max(merge_cpu),
            "fold_cpu_ms": statistics.median(fold_cpu),
            "fold_ms": max(fold_seconds) * 1e3,
            "commit_cpu_ms": statistics.median(commit_cpu),
            "gil_ms": statistics.median(ms for ms, _ in gil) if gil else None,
            "gil_share": statistics.median(share for _, share in gil) if gil else None,
            "chain_ms": max(one.seconds for one in merges) * 1e3,
        }
        return figures, chain

    def _served(self) -> list[int]:
        return [int(member.client.stats()["counters"].get("reads served", 0)) for member in self.members]

    def _merges(self, heads: Heads) -> list[_Merge]:
        ranges = cuts(len(self.members) * self.tasks_each)
        return [
            self._alone(member, tasks, heads, ranges[index * self.tasks_each :][: self.tasks_each])
            for index, (member, tasks) in enumerate(zip(self.members, self.tasks, strict=True))
        ]

    def _alone(self, member: Executor, tasks: Tasks, heads: Heads, ranges: list[Prefixes]) -> _Merge:
        """One executor's merge."""
        try:
            sampler = Sampler([member.agent.pid])
        except (LookupError, OSError) as error:
            self.said.append(f"no time of the interpreter lock: {error}")
            gathered, seconds = tasks.gather(heads, ranges)
            return _Merge(gathered, seconds, None, tasks.merge(heads, gathered))
        sampler.start()
        try:
            gathered, seconds = tasks.gather(heads, ranges)
        finally:
            share = sampler.stop()[member.agent.pid]
        return _Merge(gathered, seconds, share, tasks.merge(heads, gathered))

    def _check(self, load: Load, merged: list[Merged]) -> None:
        """That every row counts once, and every key is in one group."""
        executors = len(self.members)
        rows = sum(load.rows_of(index, executors) * load.blocks for index in range(executors))
        if (found := sum(one.rows for one in merged)) != rows:
            raise AssertionError(f"the merge counts {found:,} of {rows:,} rows")
        if (groups := sum(one.groups for one in merged)) > load.keys:
            raise AssertionError(f"the merge gives {groups:,} groups of {load.keys:,} keys")


@dataclass(frozen=True)
class _Merge:
    """Of one executor: the seconds until its blocks were there, and the share of them that its agent had its lock."""

    gathered: list[Gathered]
    seconds: float
    gil_share: float | None
    merged: list[Merged]


class _Cpu:
    """Of agents, in all of their threads."""

    def __init__(self, members: list[Executor]) -> None:
        self._members = members
        self._last = self._now()

    def lap(self) -> list[float]:
        """Milliseconds of each since the last lap."""
        before, self._last = self._last, self._now()
        return [(late - early) * 1e3 for early, late in zip(before, self._last, strict=True)]

    def _now(self) -> list[float]:
        return [member.cpu_seconds() for member in self._members]
