"""Results files, read: runs grouped into comparisons, with what was noted of the session beside them.

Three kinds of lines are told apart by what they hold: runs (`engine`), READs of the RDMA bench (`perftest_mib_s`), and
notes of a session (`command`, `bar`). A file that is one JSON object with `benchmarks` is google-benchmark's. Fields
that a line lacks are figures that were not taken: nothing here fails for want of one.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

BASELINE = "spark-rocksdb"
BATCH_BOUND = "batch bound"

Record = dict[str, Any]


@dataclass
class Runs:
    """All runs of one engine in one comparison."""

    engine: str
    records: list[Record] = field(default_factory=list)

    @property
    def rates(self) -> list[float]:
        """Rows per second of each run."""
        return [record["rows_per_second"] for record in self.records if "rows_per_second" in record]

    @property
    def rate(self) -> float | None:
        """The median of the rates."""
        return statistics.median(self.rates) if self.rates else None

    @property
    def batches(self) -> list[float]:
        """Milliseconds of each micro-batch, of all runs."""
        return [ms for record in self.records for ms in record.get("batch_ms") or []]

    @property
    def input_batches(self) -> list[float]:
        """Of those that had input. Without them, Spark emits what the last watermark closed."""
        return [ms for record in self.records for ms in record.get("input_batch_ms") or []]

    @property
    def most_batches(self) -> int:
        """Micro-batches of the run that had most."""
        return max((len(record.get("batch_ms") or []) for record in self.records), default=0)

    @property
    def cycles(self) -> float | None:
        """Median CPU cycles a row, of all processes of the engine; None where they were not taken."""
        figures = [cycles for record in self.records if (cycles := cycles_a_row(record)) is not None]
        return statistics.median(figures) if figures else None

    @property
    def peak_bytes(self) -> int | None:
        """The most memory that any run took."""
        return max((record["peak_bytes"] for record in self.records if record.get("peak_bytes")), default=None)

    @property
    def is_bound(self) -> bool:
        """A batch engine over the same files: an upper bound, and no stream."""
        return any(record.get("kind") == BATCH_BOUND for record in self.records)

    @property
    def correct(self) -> bool | None:
        """Whether its rows were the oracle's; None: not checked. One wrong run is enough."""
        verdicts = [record["correct"] for record in self.records if record.get("correct") is not None]
        return all(verdicts) if verdicts else None

    @property
    def failed(self) -> str | None:
        """Why a run of it failed, the first that did: figures of the others are no figures of the engine."""
        return next((record["error"] for record in self.records if record.get("error")), None)

    @property
    def obstacle(self) -> str | None:
        """Why there is no figure: it cannot run this workload, or it failed."""
        for record in reversed(self.records):
            if record.get("cannot"):
                return f"cannot: {record['cannot']}"
            if record.get("error"):
                return f"failed: {record['error']}"
        return None


@dataclass
class Comparison:
    """Engines on one workload in one session: what may be divided by each other."""

    session: str
    title: str
    workload: Record
    engines: dict[str, Runs] = field(default_factory=dict)

    def ratio(self, engine: str, baseline: str = BASELINE) -> float | None:
        """Median rate of `engine` over that of `baseline`; None unless both were measured here, and never failed."""
        rates = {runs.engine: runs.rate for runs in self.measured}
        ours, theirs = rates.get(engine), rates.get(baseline)
        return ours / theirs if ours and theirs else None

    @property
    def measured(self) -> list[Runs]:
        """Engines with a figure that have never failed, the fastest first."""
        found = [runs for runs in self.engines.values() if runs.rate and not runs.failed]
        return sorted(found, key=lambda runs: -(runs.rate or 0))

    @property
    def first(self) -> Record:
        """Any record, for what all have in common."""
        return next(record for runs in self.engines.values() for record in runs.records)


@dataclass
class Results:
    """Everything in some files."""

    records: list[Record]
    kernels: list[Record]

    @classmethod
    def load(cls, paths: Iterable[Path]) -> Results:
        """Of JSON lines and of google-benchmark's JSON.

        Raises:
            ValueError: a line is not JSON; names file and line.
        """
        records: list[Record] = []
        kernels: list[Record] = []
        for path in paths:
            text = path.read_text()
            if (whole := _object(text)) is not None and "benchmarks" in whole:
                kernels.append(whole)
            else:
                records += _lines(text, path)
        return cls(records, kernels)

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """In the order of their first runs."""
        return compare(self.records)

    @cached_property
    def bars(self) -> list[Record]:
        """What was asked of a session: `bar`, `figure`, `wanted`, `met` (None: not measured)."""
        return [record for record in self.records if "bar" in record]

    @cached_property
    def left_out(self) -> list[Record]:
        """Comparisons that a session did not come to: `title`, `not_measured`."""
        return [record for record in self.records if "not_measured" in record]

    @cached_property
    def reads(self) -> list[Record]:
        """Lines of `python -m eval.rdma`."""
        return [record for record in self.records if "perftest_mib_s" in record]

    def sessions(self) -> dict[str, list[Record]]:
        """All records by session."""
        found: dict[str, list[Record]] = {}
        for record in self.records:
            if "session" in record:
                found.setdefault(record["session"], []).append(record)
        return found


def compare(records: Iterable[Record]) -> list[Comparison]:
    """Runs by session, title and workload; lines that are no runs are left out."""
    found: dict[tuple[str, str, str], Comparison] = {}
    for record in records:
        if "engine" not in record:
            continue
        session, title, workload = record.get("session", ""), record.get("title", ""), record.get("workload") or {}
        key = (session, title, json.dumps(workload, sort_keys=True))
        comparison = found.setdefault(key, Comparison(session, title, workload))
        comparison.engines.setdefault(record["engine"], Runs(record["engine"])).records.append(record)
    return list(found.values())


def batch_ms(runs: Iterable[Record], kind: str = "batch_ms") -> float:
    """Median duration of a micro-batch over all runs, in milliseconds; 0 without any. `input_batch_ms`: with input."""
    durations = [ms for run in runs for ms in run.get(kind) or []]
    return statistics.median(durations) if durations else 0.0


def clock_hz(machine: Record) -> float | None:
    """The processor's nominal frequency, as its name has it; None where it has none.

    >>> clock_hz({"cpu": "Intel(R) Xeon(R) Processor @ 2.50GHz"})
    2500000000.0
    """
    if machine.get("hz"):
        return float(machine["hz"])
    match = re.search(r"@ ([\d.]+) ?GHz", str(machine.get("cpu", "")))
    return float(match[1]) * 1e9 if match else None


def cycles_a_row(record: Record) -> float | None:
    """Cycles that were counted, else CPU seconds times the nominal clock, over the rows that were measured."""
    rows = record.get("rows") or (record.get("workload") or {}).get("rows")
    clock = clock_hz(record.get("machine") or {})
    if not rows:
        return None
    if record.get("cycles"):
        return float(record["cycles"]) / rows
    return record["cpu_seconds"] * clock / rows if record.get("cpu_seconds") and clock else None


def note(results: Path, session: str, **fields: Any) -> None:
    """Append a line that is no run: what was asked of a session, or what it was started with."""
    results.parent.mkdir(parents=True, exist_ok=True)
    with results.open("a") as file:
        file.write(json.dumps({"session": session, **fields}) + "\n")


def _object(text: str) -> Record | None:
    try:
        whole = json.loads(text)
    except ValueError:
        return None
    return whole if isinstance(whole, dict) else None


def _lines(text: str, path: Path) -> list[Record]:
    records = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                records.append(json.loads(line))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: not JSON: {error}") from None
    return records
