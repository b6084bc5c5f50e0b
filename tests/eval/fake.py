"""Engines that need nothing: each does at once what its name says."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from eval.engines import BATCH, CannotRunError, Engine, Runner
from eval.steady import Steady
from eval.workloads import Workload

CPU_SECONDS = 1.0  # of a run, twice what stands between two of the meter's looks


@dataclass(frozen=True)
class FakeRunner:
    """A run of one second, or a failure. What it is asked stands in its log."""

    name: str

    def run(self, workload: Workload, folder: Path) -> dict[str, Any]:
        """Figures, for which one that is busy burns `CPU_SECONDS`, or the failure that the name asks for."""
        print(f"run {workload.batches}", flush=True)
        if self.name == "refuses":
            raise CannotRunError("has no windows")
        if self.name == "breaks":
            raise RuntimeError("broke\nat length")
        if self.name == "dies":
            raise SystemExit(1)
        if "busy" in self.name:
            burn(CPU_SECONDS)
        return {"rows": workload.rows, "seconds": 1.0, "rows_per_second": float(workload.rows)}

    def steady(self, workload: Workload, folder: Path, rule: Steady) -> dict[str, Any]:
        """The second one of two runs."""
        print("steady", flush=True)
        self.run(workload, folder)
        begin = time.time()
        figures = self.run(workload, folder)
        return figures | {"batch_ms": [500, 500], "part": (begin, time.time())}

    def oracle(self, workload: Workload, folder: Path) -> None:
        """Made at once, or not at all."""
        if self.name == "breaks":
            raise RuntimeError("broke")
        (folder / "oracle").mkdir()

    def differences(self, workload: Workload, folder: Path) -> list[str]:
        """Of a wrong one."""
        return ["missing: key=7"]

    def check(self, workload: Workload, folder: Path) -> tuple[bool, int]:
        """Wrong if the name says so."""
        print("check", flush=True)
        return "wrong" not in self.name, 0 if self.name == "kept nothing" else 7

    def close(self) -> None:
        """Nothing."""


def burn(seconds: float) -> None:
    """Take so much processor time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


@dataclass(frozen=True)
class Fake(Engine):
    """In a process of its own like any other."""

    kind: ClassVar[str] = BATCH

    @property
    def aggregates(self) -> bool:  # type: ignore[override]
        """Whether it has a result, unless the name says that it is a floor."""
        return "floor" not in self.name

    @property
    def checks_runs(self) -> bool:  # type: ignore[override]
        """Whether it keeps its rows, if the name says so."""
        return "kept" in self.name

    def heaps_gib(self, memory: int) -> int:
        """A heap if the name says so."""
        return memory if self.name == "heavy" else 0

    def open(self, settings: dict[str, str]) -> Runner:
        """One that does as the name says."""
        return FakeRunner(self.name)


KEPT = ("kept", "kept wrong", "kept nothing", "kept floor", "kept busy")
NAMES = ("good", "wrong", "refuses", "breaks", "dies", "heavy", "busy", *KEPT)
ENGINES: dict[str, Engine] = {name: Fake(name) for name in NAMES}
