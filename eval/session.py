"""A measuring session: engines side by side, warmed, taking turns; every figure goes to a JSON lines file at once."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval import machine
from eval.engines import ENGINES
from eval.process import EngineError, EngineProcess
from eval.workloads import Workload

LONG_SECONDS = 120  # a run of this length varies little: it is not repeated


@dataclass
class Outcome:
    """What one engine did on one workload: its measured runs, whether its rows were right (None: not checked)."""

    engine: str
    runs: list[dict[str, Any]] = field(default_factory=list)
    correct: bool | None = None
    error: str | None = None

    @property
    def rates(self) -> list[float]:
        """Rows per second of each run."""
        return [run["rows_per_second"] for run in self.runs]

    @property
    def rate(self) -> float | None:
        """The median of the rates."""
        return statistics.median(self.rates) if self.runs else None


@dataclass
class Session:
    """Settings that all measurements of one invocation share."""

    cache: Path
    results: Path
    repeats: int = 3
    driver_memory: str = "4g"
    full_check: bool = False
    conf: dict[str, str] = field(default_factory=dict)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def compare(self, title: str, workload: Workload, engines: Sequence[str], warm_up: bool = True) -> list[Outcome]:
        """Run `workload` on each of `engines`, check and warm-up first, then `repeats` rounds in turns.

        An engine that needs more than `LONG_SECONDS` runs once.
        An engine that fails is left out from there on and says why; the others go on.
        """
        say(f"{title}: {workload.rows:,} rows, engines {', '.join(engines)}")
        folder = workload.generate(self.cache)
        sample = workload.sample()
        sample_folder = sample.generate(self.cache)
        outcomes = {name: Outcome(name) for name in engines}
        with ExitStack() as stack:
            processes = {}
            for name in engines:
                log = self.cache / f"{name}.log"
                process = EngineProcess(ENGINES[name], self.driver_memory, log, self.conf)
                processes[name] = stack.enter_context(process)
            for process in processes.values():
                with _Failures(outcomes[process.engine.name]) as outcome:
                    if process.engine.aggregates:
                        checked, where = (workload, folder) if self.full_check else (sample, sample_folder)
                        outcome.correct, rows = process.ask("check", checked, where)
                        verdict = "agree with" if outcome.correct else "DIFFER from"
                        say(f"  {outcome.engine:14} emitted rows {verdict} the {rows:,} of Spark batch")
                    if warm_up and not outcomes[process.engine.name].error:
                        process.ask("run", sample, sample_folder)
            for repeat in range(self.repeats):
                for process in processes.values():
                    done = outcomes[process.engine.name]
                    if done.error or any(run["seconds"] > LONG_SECONDS for run in done.runs):
                        continue
                    with _Failures(outcomes[process.engine.name]) as outcome:
                        figures = process.ask("run", workload, folder)
                        outcome.runs.append(figures)
                        say(f"  {outcome.engine:14} {figures['rows_per_second'] / 1e6:8.3f} M rows/s")
                        self._record(title, workload, process, repeat, outcome, figures)
        for outcome in outcomes.values():
            if outcome.error:
                self._write({"title": title, "workload": workload.describe(), **vars(outcome)})
        return list(outcomes.values())

    def _record(
        self,
        title: str,
        workload: Workload,
        process: EngineProcess,
        repeat: int,
        outcome: Outcome,
        figures: dict[str, Any],
    ) -> None:
        self._write(
            {
                "title": title,
                "workload": workload.describe(),
                "engine": outcome.engine,
                "repeat": repeat,
                "correct": outcome.correct,
                **figures,
                "conf": process.conf,
            }
        )

    def _write(self, record: dict[str, Any]) -> None:
        self.results.parent.mkdir(parents=True, exist_ok=True)
        with self.results.open("a") as file:
            file.write(json.dumps({"session": self.started, **record, "machine": machine.describe()}) + "\n")


class _Failures:
    """Notes an engine's error in its outcome instead of ending the session."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def __enter__(self) -> Outcome:
        return self._outcome

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, EngineError):
            self._outcome.error = str(error)
            say(f"  {error}")
            return True
        return False


def say(line: str) -> None:
    """A line of progress."""
    print(line, flush=True)


def read(results: Path) -> Iterable[dict[str, Any]]:
    """The records of a results file."""
    with results.open() as file:
        return [json.loads(line) for line in file]
