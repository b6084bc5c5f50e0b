"""A measuring session: engines side by side, warmed, taking turns; every figure goes to a JSON lines file at once."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from eval import machine
from eval.engines import ENGINES, CannotRunError, SparkEngine
from eval.engines.spark import ROCKSDB_AS_IT_COMES
from eval.machine import memory_bytes
from eval.process import EngineError, EngineProcess
from eval.steady import Steady
from eval.workloads import Workload

COMPARED_ROWS, FEW_BATCHES = 2_000_000, 40
LONG_SECONDS = 15  # a run of this length varies little: it is not repeated
SHARE_OF_MEMORY = 0.7  # for heaps: engines have more than these
ORACLE = SparkEngine("oracle", ROCKSDB_AS_IT_COMES)  # the one store that has all of Spark's operators


@dataclass(frozen=True)
class Comparison:
    """One workload on some engines.

    `first`: engines that are measured on the first so many micro-batches only, as their rate is low and steady.
    `repeats`: instead of the session's. `memory`: GiB, instead of the session's, of each JVM's heap. `cold`: neither
    checked nor warmed, in processes of their own one after the other: for what memory is taken. `steady`: each engine
    runs once, and the steady part of its stream counts; rows are compared in another run, of the first micro-batches,
    which engines without a result have, too: it warms them.
    """

    title: str
    workload: Workload
    engines: tuple[str, ...]
    first: Mapping[str, int] = field(default_factory=dict)
    repeats: int | None = None
    memory: int | None = None
    cold: bool = False
    steady: Steady | None = None

    @property
    def beginning(self) -> Workload:
        """The first micro-batches of a steady stream: enough of them for some rows to be compared."""
        workload = self.workload
        return workload.first(max(2, min(FEW_BATCHES, COMPARED_ROWS * workload.batches // workload.rows)))


@dataclass
class Outcome:
    """What one engine did on one workload: its measured runs, whether its rows were right (None: not checked).

    `compared`: how many rows the oracle has.
    """

    engine: str
    runs: list[dict[str, Any]] = field(default_factory=list)
    correct: bool | None = None
    compared: int = 0
    error: str | None = None
    cannot: str | None = None

    @property
    def over(self) -> bool:
        """Whether there is nothing more to be had from it here."""
        return bool(self.error or self.cannot)

    @property
    def rate(self) -> float | None:
        """The median of the rows per second of its runs."""
        return statistics.median(run["rows_per_second"] for run in self.runs) if self.runs else None


@dataclass
class Session:
    """Settings that all measurements of one invocation share, and the engines that are up.

    Engines stay up from one comparison to the next that has them: a session of a dozen comparisons would otherwise be
    mostly starts of JVMs. Those that the next one does not have are closed, for their memory.
    """

    cache: Path
    results: Path
    repeats: int = 3
    memory: int = 4
    full_check: bool = False
    conf: dict[str, str] = field(default_factory=dict)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    records: list[dict[str, Any]] = field(default_factory=list, init=False)
    _began: float = field(default_factory=time.monotonic, init=False)
    _up: dict[tuple[str, int], EngineProcess] = field(default_factory=dict, init=False)

    def compare(self, comparison: Comparison, suite: str = "") -> list[Outcome]:
        """Oracles and warm-up first, then `repeats` rounds in turns; an engine whose run is long runs once.

        Each run's own rows are compared with the oracle's once it is over; those of engines that keep none of their
        runs, of another run before.

        Where memory does not suffice for all heaps at once, some engines take turns after the others have ended. An
        engine that fails, or cannot run this, is left out from there on and says why; the others go on.
        """
        workload = comparison.workload
        say(f"{comparison.title}: {workload.rows:,} rows, engines {', '.join(comparison.engines)}")
        outcomes = [Outcome(name) for name in comparison.engines]
        self._write_oracles(comparison, outcomes)
        for group in self._groups(comparison, outcomes):
            self._close(set(self._up) - {self._key(comparison, outcome) for outcome in group if not comparison.cold})
            if comparison.steady:
                for outcome in group:
                    self._measure_steady(comparison, comparison.steady, outcome, suite)
                continue
            for outcome in () if comparison.cold else group:
                self._prepare(comparison, outcome)
            self._measure(comparison, group, suite)
        for outcome in outcomes:
            if outcome.over:
                # After a failure nobody knows what state an engine is in.
                self._close({self._key(comparison, outcome)} & set(self._up))
                reason = {"error": outcome.error} if outcome.error else {"cannot": outcome.cannot}
                self._record(comparison, suite, outcome, reason)
        return outcomes

    def _prepare(self, comparison: Comparison, outcome: Outcome) -> None:
        """Warm the engine if it is new to the workload; and compare a sample's rows, if it has no rows of its runs."""
        with _Failures(outcome):
            engine = self._engine(comparison, outcome)
            checked = self._checked(comparison, outcome)
            if checked is not None and not engine.engine.checks_runs:
                self._check(engine, outcome, checked)
            if comparison.workload.query_name not in engine.warm:
                warm_up = comparison.workload.warm_up()
                engine.ask("run", warm_up, warm_up.generate(self.cache))
                engine.warm.add(comparison.workload.query_name)

    def _measure_steady(self, comparison: Comparison, rule: Steady, outcome: Outcome, suite: str) -> None:
        """Run the first micro-batches, which warms the engine, and compare their rows; then measure its own stream.

        What has no rows to compare, a floor, is as warm as what it is the floor of.
        """
        with _Failures(outcome):
            engine = self._engine(comparison, outcome)
            found: dict[str, Any] = {}
            first = comparison.beginning
            if engine.engine.checks_runs and not comparison.cold:
                engine.ask("run", first, first.generate(self.cache))
            if self._checked(comparison, outcome) is not None:
                found = self._check(engine, outcome, first)
            workload = comparison.workload
            figures = engine.measure(workload, workload.generate(self.cache), rule)
            outcome.runs.append(figures)
            say(f"{_told(outcome, figures)}, {len(figures.get('batch_ms', ()))} steady micro-batches")
            self._record(comparison, suite, outcome, {"steady": asdict(rule), **figures, **found, "conf": engine.conf})

    def _measure(self, comparison: Comparison, outcomes: Sequence[Outcome], suite: str) -> None:
        for repeat in range(comparison.repeats or self.repeats):
            for outcome in outcomes:
                if outcome.over or (outcome.runs and outcome.runs[0]["seconds"] > LONG_SECONDS):
                    continue
                with _Failures(outcome):
                    engine = self._engine(comparison, outcome)
                    workload = self._measured(comparison, outcome)
                    if not comparison.cold:
                        self._wake(engine, workload)
                    figures = engine.measure(workload, workload.generate(self.cache), None)
                    outcome.runs.append(figures)
                    part = {"first_batches": workload.batches} if workload != comparison.workload else {}
                    of = f", first {workload.batches} of {comparison.workload.batches} micro-batches" if part else ""
                    say(_told(outcome, figures) + of)
                    found: dict[str, Any] = {}
                    if engine.engine.checks_runs and self._checked(comparison, outcome) is not None:
                        found = self._check(engine, outcome, workload)
                    more = {"repeat": repeat, **part, **figures, **found, "conf": engine.conf}
                    self._record(comparison, suite, outcome, more)

    def _check(self, engine: EngineProcess, outcome: Outcome, workload: Workload) -> dict[str, Any]:
        """Note whether the rows are the oracle's: those of the last run, or of another one on `workload`.

        Returns what the record says beside that: `differences`, of an engine whose rows were kept and are not right.
        """
        correct, outcome.compared = engine.ask("check", workload, workload.generate(self.cache))
        if correct and not outcome.compared:
            say(f"  {outcome.engine:20} emitted no rows, nor does the oracle")
            return {}
        outcome.correct = correct
        oracle = "plain Spark's stream" if workload.is_judged_by_stream else "Spark batch"
        kept = "" if engine.engine.checks_runs else " (of another run)"
        verdict = "agrees with" if correct else "DIFFERS from"
        say(f"  {outcome.engine:20} {verdict} the {outcome.compared:,} rows of {oracle}{kept}")
        return {} if correct or not engine.engine.checks_runs else {"differences": self._differences(engine, workload)}

    def _differences(self, engine: EngineProcess, workload: Workload) -> list[str]:
        """What differs, by another run whose rows are all written."""
        lines: list[str] = engine.ask("differences", workload, workload.generate(self.cache))
        if not lines:
            lines = ["none in another run, or rows of other micro-batches only"]
        for line in lines:
            say(f"    {line}")
        return lines

    def _measured(self, comparison: Comparison, outcome: Outcome) -> Workload:
        """What an engine's runs are of: the whole workload, or its first micro-batches."""
        return comparison.workload.first(comparison.first.get(outcome.engine, comparison.workload.batches))

    def _checked(self, comparison: Comparison, outcome: Outcome) -> Workload | None:
        """What an engine's rows are compared on; None: on nothing."""
        engine = ENGINES[outcome.engine]
        if comparison.cold or not engine.aggregates:
            return None
        if comparison.steady:
            return comparison.beginning
        if engine.checks_runs:
            return self._measured(comparison, outcome)
        return comparison.workload if self.full_check else comparison.workload.sample()

    def _wake(self, engine: EngineProcess, workload: Workload) -> None:
        """Have the engine run one micro-batch of full size, as if it came from the one before.

        Those of the warm-up may be too small to take the ways that are measured; and PySpark ends Python workers that
        had nothing to do for a minute, while other engines had their turns.
        """
        first = workload.first(1)
        if workload != first:
            engine.ask("run", first, first.generate(self.cache))

    def _groups(self, comparison: Comparison, outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
        """Engines that are up at the same time: as many as their heaps leave room for."""
        groups: list[list[Outcome]] = []
        left = 0
        for outcome in outcomes:
            heaps = ENGINES[outcome.engine].heaps_gib(comparison.memory or self.memory)
            if not groups or comparison.cold or heaps > left:
                groups.append([])
                left = int(memory_bytes() * SHARE_OF_MEMORY) >> 30
            groups[-1].append(outcome)
            left -= heaps
        return groups

    def _key(self, comparison: Comparison, outcome: Outcome) -> tuple[str, int]:
        return outcome.engine, comparison.memory or self.memory

    def _engine(self, comparison: Comparison, outcome: Outcome) -> EngineProcess:
        key = name, memory = self._key(comparison, outcome)
        if key not in self._up:
            self._up[key] = EngineProcess(ENGINES[name], memory, self.cache / f"{name}.log", self.conf)
        return self._up[key]

    def _write_oracles(self, comparison: Comparison, outcomes: Sequence[Outcome]) -> None:
        """The rows of whatever will be checked, unless they are there, by Spark in a process of its own."""
        checked = [workload for each in outcomes if (workload := self._checked(comparison, each)) is not None]
        missing = [each for each in dict.fromkeys(checked) if not (each.generate(self.cache) / "oracle").exists()]
        if not missing:
            return
        # For its memory, none that is not needed soon stays up meanwhile.
        self._close(set(self._up) - {self._key(comparison, outcome) for outcome in outcomes if not comparison.cold})
        conf = {key: value for key, value in self.conf.items() if not key.startswith("spark.slash.")}
        try:
            with EngineProcess(ORACLE, self.memory, self.cache / "oracle.log", conf) as process:
                for workload in missing:
                    process.ask("oracle", workload, workload.generate(self.cache))
        except EngineError as error:
            for outcome in outcomes:
                outcome.error = str(error)
            say(f"  {error}")

    def _close(self, keys: Iterable[tuple[str, int]]) -> None:
        with ExitStack() as stack:
            for key in keys:
                stack.push(self._up.pop(key))

    def close(self) -> None:
        """End all engines."""
        self._close(set(self._up))

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _record(self, comparison: Comparison, suite: str, outcome: Outcome, fields: dict[str, Any]) -> None:
        engine = ENGINES[outcome.engine]
        self.write(
            {
                "suite": suite,
                "title": comparison.title,
                "workload": comparison.workload.describe(),
                "engine": outcome.engine,
                "kind": engine.kind,
                "versions": {**machine.versions(), **engine.versions()},
                "correct": outcome.correct,
                "compared_rows": outcome.compared,
                **fields,
                "machine": machine.describe(),
            }
        )

    def write(self, record: dict[str, Any]) -> None:
        """Append a line to the results, and keep it."""
        record = {"session": self.started, "at_s": round(time.monotonic() - self._began, 1), **record}
        self.records.append(record)
        self.results.parent.mkdir(parents=True, exist_ok=True)
        with self.results.open("a") as file:
            file.write(json.dumps(record) + "\n")


class _Failures:
    """Notes an engine's error in its outcome instead of ending the session."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, CannotRunError):
            self._outcome.cannot = str(error)
            say(f"  {self._outcome.engine:20} cannot: {error}")
            return True
        if isinstance(error, EngineError):
            self._outcome.error = str(error)
            say(f"  {error}")
            return True
        return False


def _told(outcome: Outcome, figures: Mapping[str, Any]) -> str:
    return (
        f"  {outcome.engine:20} {figures['rows_per_second'] / 1e6:8.3f} M rows/s, "
        f"{figures['seconds']:6.1f} s, {figures['peak_bytes'] / 1e9:5.2f} GB"
    )


def say(line: str) -> None:
    """A line of progress."""
    print(line, flush=True)


def read(results: Path) -> list[dict[str, Any]]:
    """The records of a results file."""
    with results.open() as file:
        return [json.loads(line) for line in file]
