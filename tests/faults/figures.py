"""What the processes of a soak hold, sampled every second, and whether it is flat."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.strike import all_children, command_of

MIB = 1 << 20
LEAST_SAMPLES = 10
# What a figure may be above its earlier maximum, besides a quarter of it. A JVM takes its heap when it likes.
SLACK = {
    "arena bytes": MIB,
    "checkpoint files": 24,
    "agent fds": 16,
    "agent memory": 32 * MIB,
    "driver fds": 16,
    "driver memory": 64 * MIB,
    "driver JVM fds": 64,
    "driver JVM memory": 384 * MIB,
    "executor fds": 64,
    "executor memory": 256 * MIB,
}


def descendants(pid: int) -> list[int]:
    """Every process below `pid`."""
    children, found, queue = all_children(), [], [pid]
    while queue:
        below = children[queue.pop()]
        found += below
        queue += below
    return found


def executors(below: int) -> list[int]:
    """The JVMs of executors below a process, those of the cluster that it has started."""
    return [pid for pid in descendants(below) if b"CoarseGrainedExecutorBackend" in command_of(pid)]


def fds(pid: int) -> int:
    """Open file descriptors; 0 if it is gone."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def memory(pid: int) -> int:
    """Resident bytes that are its own: without files and what it shares, such as the arena; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


@dataclass
class Figures:
    """One list of values a name, in the order of time."""

    samples: dict[str, list[int]] = field(default_factory=dict)

    def add(self, name: str, value: int) -> None:
        """A sample; none of a process that is just starting or gone."""
        if value:
            self.samples.setdefault(name, []).append(value)

    def add_processes(self, kind: str, pids: Iterable[int]) -> None:
        """The greatest of the processes of a kind."""
        alive = list(pids)
        self.add(f"{kind} fds", max(map(fds, alive), default=0))
        self.add(f"{kind} memory", max(map(memory, alive), default=0))

    def missing(self) -> list[str]:
        """The figures that were sampled too seldom to be seen growing, or never."""
        return [name for name in SLACK if len(self.samples.get(name, ())) < LEAST_SAMPLES]

    def growing(self) -> list[str]:
        """The figures whose maximum at the end is above that of the middle by more than they may vary."""
        found = []
        for name, values in self.samples.items():
            middle, end = values[len(values) * 2 // 5 : len(values) * 7 // 10], values[len(values) * 7 // 10 :]
            if middle and end and max(end) > max(middle) * 1.25 + SLACK[name]:
                found.append(f"{name}: at most {max(middle)} in the middle, {max(end)} at the end")
        return found

    def table(self) -> str:
        """One line a figure: its maximum in each fifth of the time."""
        lines = [f"{'maximum in each fifth of the time':34}"]
        for name, values in sorted(self.samples.items()):
            cuts = [values[len(values) * i // 5 : len(values) * (i + 1) // 5] for i in range(5)]
            lines.append(f"{name:34}" + "".join(f"{max(cut, default=0):14,}" for cut in cuts))
        return "\n".join(lines)
