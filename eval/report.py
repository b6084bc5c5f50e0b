"""Results as a table: medians, spread, and the ratio to Spark's own state store."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

BASELINE = "spark-rocksdb"


def table(records: Iterable[dict[str, Any]], baseline: str = BASELINE) -> str:
    """One line an engine for each title: median rate and its spread, median ms of a micro-batch, ratio, correctness."""
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for record in records:
        groups.setdefault(record["title"], {}).setdefault(record["engine"], []).append(record)
    lines = []
    for title, engines in groups.items():
        lines += ["", title]
        lines.append(f"  {'engine':14} {'M rows/s':>9} {'min .. max':>18} {'batch ms':>9} {'vs ' + baseline:>17}  rows")
        base = _rate(engines.get(baseline, []))
        lines += [f"  {_line(name, runs, base)}" for name, runs in engines.items()]
    return "\n".join(lines)


def _line(engine: str, runs: list[dict[str, Any]], base: float | None) -> str:
    rate = _rate(runs)
    if rate is None:
        return f"{engine:14} failed: {runs[-1].get('error')}"
    rates = [run["rows_per_second"] / 1e6 for run in runs if "rows_per_second" in run]
    ratio = f"{rate / base:.2f}x" if base else "-"
    spread = f"{min(rates):.3f} .. {max(rates):.3f}"
    correct = {True: "agree", False: "DIFFER", None: "-"}[runs[-1].get("correct")]
    return f"{engine:14} {rate / 1e6:>9.3f} {spread:>18} {batch_ms(runs):>9.0f} {ratio:>17}  {correct}"


def _rate(runs: list[dict[str, Any]]) -> float | None:
    rates = [run["rows_per_second"] for run in runs if "rows_per_second" in run]
    return statistics.median(rates) if rates else None


def batch_ms(runs: Iterable[dict[str, Any]]) -> float:
    """Median duration of a micro-batch over all runs, in milliseconds; 0 without any."""
    durations = [ms for run in runs for ms in run.get("batch_ms", [])]
    return statistics.median(durations) if durations else 0.0
