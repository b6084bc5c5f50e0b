"""Engines that need nothing: each does at once what its name says."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from eval.engines import BATCH, CannotRunError, Engine, Runner
from eval.steady import Steady
from eval.workloads import Workload


@dataclass(frozen=True)
class FakeRunner:
    """A run of one second, or a failure."""

    name: str

    def run(self, workload: Workload, folder: Path) -> dict[str, Any]:
        """Figures, or the failure that the name asks for."""
        if self.name == "refuses":
            raise CannotRunError("has no windows")
        if self.name == "breaks":
            raise RuntimeError("broke\nat length")
        if self.name == "dies":
            raise SystemExit(1)
        return {"rows": workload.rows, "seconds": 1.0, "rows_per_second": float(workload.rows)}

    def steady(self, workload: Workload, folder: Path, rule: Steady) -> dict[str, Any]:
        """The second half of a run of two seconds."""
        now = time.time()
        figures = self.run(workload, folder)
        return figures | {"batch_ms": [500, 500], "part": (now - 1, now)}

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
        return "wrong" not in self.name, 0 if self.name == "kept nothing" else 7

    def close(self) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Fake(Engine):
    """In a process of its own like any other."""

    kind: ClassVar[str] = BATCH

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


NAMES = ("good", "wrong", "refuses", "breaks", "dies", "heavy", "kept", "kept wrong", "kept nothing")
ENGINES: dict[str, Engine] = {name: Fake(name) for name in NAMES}
