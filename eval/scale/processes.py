"""Processor time of an application's driver, executors and agents, each by itself, from the outside."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import defaultdict
from pathlib import Path

from eval.meter import Meter, cpu_seconds

DRIVER, AGENTS, EXECUTORS = "driver", "agents", "executors"
KINDS = (DRIVER, AGENTS, EXECUTORS)
_SAMPLE_SECONDS = 0.1
# Words of a command line, and what has them; the first ones count. Spark's masters and workers run for nobody's sake.
_WORDS = {
    b"org.apache.spark.deploy.SparkSubmit": DRIVER,
    b"org.apache.spark.deploy.": "",
    b"pyslash.agent": AGENTS,
    b"CoarseGrainedExecutorBackend": EXECUTORS,
    b"pyspark.daemon": EXECUTORS,
}
# What an application cannot be without: a program, and words of its command line. Scripts that start a JVM have these
# words too.
_PROGRAMS = {
    DRIVER: (b"java", b"org.apache.spark.deploy.SparkSubmit"),
    AGENTS: (b"", b"pyslash.agent"),
    EXECUTORS: (b"java", b"CoarseGrainedExecutorBackend"),
}


class ByKind:
    """Samples the processes that have a mark in their environment (`eval.meter`) while its block runs.

    One that has ended, or that a sample has missed, counts with what it had.
    """

    def __init__(self, mark: str) -> None:
        self._meter = Meter(mark)
        self._samples: list[tuple[float, dict[str, float]]] = []
        self._last: dict[tuple[int, str], float] = {}  # seconds of each process, by its kind
        self._lines: dict[int, bytes] = {}  # the command line that each process had last
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> ByKind:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def between(self, begin: float, end: float) -> dict[str, float]:
        """Seconds of each kind from one time (seconds since 1970) to another."""
        first, last = self._at(begin), self._at(end)
        return {kind: last[kind] - first[kind] for kind in KINDS}

    def seen(self) -> dict[str, int]:
        """How many JVMs of drivers and of executors, and how many processes of agents, there have been."""
        lines = [(line.partition(b"\0")[0], line) for line in self._lines.values()]
        return {
            kind: sum(first.endswith(program) and words in line for first, line in lines)
            for kind, (program, words) in _PROGRAMS.items()
        }

    def _at(self, when: float) -> dict[str, float]:
        """Until then, in a straight line between two samples."""
        index = min(max(bisect_left(self._samples, when, key=lambda one: one[0]), 1), len(self._samples) - 1)
        (before, low), (after, high) = self._samples[index - 1 : index + 1]
        share = min(max((when - before) / (after - before), 0.0), 1.0)
        return {kind: low[kind] + share * (high[kind] - low[kind]) for kind in KINDS}

    def _sample(self) -> None:
        while not self._over.wait(_SAMPLE_SECONDS):
            for pid in self._meter.processes():
                line = _command_line(pid)
                process = pid, kind_of(line)
                self._lines[pid] = line or self._lines.get(pid, b"")
                self._last[process] = max(cpu_seconds(pid, with_children=False), self._last.get(process, 0.0))
            found = defaultdict[str, float](float)
            for (_, kind), seconds in self._last.items():
                found[kind] += seconds
            self._samples.append((time.time(), found))


def kind_of(line: bytes) -> str:
    """Of a command line: one of `KINDS`, or nothing: of neither, or of a process that is gone."""
    return next((kind for words, kind in _WORDS.items() if words in line), DRIVER) if line else ""


def _command_line(pid: int) -> bytes:
    """Nothing of a process that is gone, or in the middle of an exec."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
