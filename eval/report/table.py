"""The table for the terminal: medians, spread, and the ratio to Spark's own state store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eval.records import BASELINE, Comparison, Runs, batch_ms, compare

VERDICTS = {True: "agree", False: "DIFFER", None: "-"}


def table(records: Iterable[dict[str, Any]], baseline: str = BASELINE) -> str:
    """One line an engine for each title: median rate and its spread, ratio, correctness.

    Between them, median milliseconds of all micro-batches, and of those that had input.
    """
    lines = []
    for comparison in compare(records):
        lines += ["", comparison.title]
        heads = f"{'M rows/s':>9} {'min .. max':>18} {'batch ms':>9} {'input ms':>9} {'vs ' + baseline:>17}"
        lines.append(f"  {'engine':20} {heads}  rows")
        lines += [f"  {_line(comparison, runs, baseline)}" for runs in comparison.engines.values()]
    return "\n".join(lines)


def _line(comparison: Comparison, runs: Runs, baseline: str) -> str:
    if runs.rate is None:
        return f"{runs.engine:20} {runs.obstacle or 'no figure'}"
    ratio = comparison.ratio(runs.engine, baseline)
    spread = f"{min(runs.rates) / 1e6:.3f} .. {max(runs.rates) / 1e6:.3f}"
    shown = f"{ratio:.2f}x" if ratio else "-"
    more = " (batch bound)" if runs.is_bound else ""
    more += f", failed: {runs.failed}" if runs.failed else ""
    durations = " ".join(
        f"{batch_ms(runs.records, kind):>9.0f}" if found else f"{'-':>9}"
        for kind, found in (("batch_ms", runs.batches), ("input_batch_ms", runs.input_batches))
    )
    return (
        f"{runs.engine:20} {runs.rate / 1e6:>9.3f} {spread:>18} {durations} {shown:>17}  {VERDICTS[runs.correct]}{more}"
    )
