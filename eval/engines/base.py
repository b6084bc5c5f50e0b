"""What an engine is to the harness: a name, a conf, and something in a process of its own that can run workloads."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from eval.steady import Steady
from eval.workloads import Workload

CORES = len(os.sched_getaffinity(0))
STREAMING = "streaming"
BATCH = "batch bound"  # the same query over all files at once: a bound, no competitor


class Runner(Protocol):
    """An engine that is up, in its own process."""

    def run(self, workload: Workload, folder: Path) -> dict[str, Any]:
        """Run the workload over its files once.

        Returns at least `rows`, `seconds`, `rows_per_second`.

        Raises:
            CannotRunError: this engine has no way to run it.
        """
        ...

    def steady(self, workload: Workload, folder: Path, rule: Steady) -> dict[str, Any]:
        """The same figures, of the steady part of a long stream alone: see `eval.steady`."""
        ...

    def check(self, workload: Workload, folder: Path) -> tuple[bool, int]:
        """Whether the engine's rows are those of `folder/oracle`, and how many those are.

        Of an engine that `checks_runs`, the rows of its last run; else the query is run again.
        """
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


@dataclass(frozen=True)
class Engine(ABC):
    """A name, `STREAMING` or `BATCH`, and settings."""

    kind: ClassVar[str] = STREAMING
    aggregates: ClassVar[bool] = True
    checks_runs: ClassVar[bool] = False  # a measured run's own rows are compared, not those of another run

    name: str
    conf: dict[str, str] = field(default_factory=dict)

    def settings(self, memory: int, given: dict[str, str]) -> dict[str, str]:
        """The whole conf of a process of this engine: a heap of `memory` GiB, Spark's keys as the user gave them."""
        return {**self.conf, "cores": str(CORES), "memory_gib": str(memory)}

    def heaps_gib(self, memory: int) -> int:
        """What all its heaps may grow to; 0 without a JVM."""
        return 0

    def versions(self) -> dict[str, str]:
        """Versions beyond those of the machine's description."""
        return {}

    @abstractmethod
    def open(self, settings: dict[str, str]) -> Runner:
        """Bring the engine up in this process.

        Raises:
            CannotRunError: what it needs is not installed.
        """
