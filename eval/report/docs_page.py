"""The generated parts of docs/benchmarks.md: the session, its figures, the bars it missed and what it did not measure.

Each part stands between `<!-- NAME -->` and `<!-- /NAME -->`; everything else on the page is written by hand.
"""

from __future__ import annotations

import re
from datetime import datetime
from itertools import groupby
from typing import Any

from eval.records import BASELINE, Comparison, Results, Runs, batch_ms

_PART = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- /\2 -->)", re.DOTALL)


def rewritten(page: str, results: Results) -> str:
    """The page with its generated parts made from the results of one session.

    Raises:
        KeyError: the page names a part that does not exist.
    """
    parts = {
        "session": lambda: _session(results),
        "figures": lambda: _figures(results),
        "missed": lambda: _missed(results),
        "unmeasured": lambda: _unmeasured(results),
    }
    return _PART.sub(lambda match: f"{match[1]}\n{parts[match[2]]()}\n\n{match[3]}", page)


def _session(results: Results) -> str:
    start = next(record for record in results.records if "command" in record)
    machine: dict[str, Any] = start["machine"]
    rows = {
        "date": f"{datetime.fromisoformat(start['session']):%Y-%m-%d %H:%M %Z}",
        "commit": machine["commit"],
        "command": f"`{start['command']}`",
        "machine": f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"Linux {machine['kernel']}",
        "versions": f"Python {machine['python']}, PySpark {machine['pyspark']}, {machine['java']}",
    }
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows.items())])


def _figures(results: Results) -> str:
    blocks = []
    for comparison in results.comparisons:
        parameters = {name: value for name, value in comparison.workload.items() if name not in ("name", "seed")}
        lines = [
            f"### {comparison.title}",
            "",
            f"`{comparison.workload['name']}`: " + ", ".join(f"{name} {value}" for name, value in parameters.items()),
            "",
            "| engine | M rows/s | least to most | runs | micro-batches | ratio | ms | rows |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
            *(_line(comparison, runs) for runs in comparison.engines.values()),
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _line(comparison: Comparison, runs: Runs) -> str:
    if runs.rate is None:
        return f"| `{runs.engine}` | {runs.obstacle or 'no figure'} | | | | | | |"
    ratio = comparison.ratio(runs.engine, BASELINE)
    verdict = {True: "Spark's", False: "**not Spark's**", None: "not compared"}[runs.correct]
    cells = [
        f"`{runs.engine}`" + (" (batch)" if runs.is_bound else ""),
        _rate(runs.rate),
        f"{_rate(min(runs.rates))} to {_rate(max(runs.rates))}" if len(runs.rates) > 1 else "",
        str(len(runs.rates)),
        str(len(runs.batches)) if runs.batches else "",
        f"{ratio:.2f}x" if ratio else "",
        f"{batch_ms(runs.records, 'batch_ms'):,.0f}" if runs.batches else "",
        verdict + (f", **failed**: {runs.failed}" if runs.failed else ""),
    ]
    return f"| {' | '.join(cells)} |"


def _rate(rows_per_second: float) -> str:
    """M rows/s with three digits, or three decimals."""
    figure = rows_per_second / 1e6
    return f"{figure:.4f}" if figure < 0.1 else f"{figure:#.3g}"


def _missed(results: Results) -> str:
    missed = [bar for bar in results.bars if bar["met"] is False]
    lines = [f"| {bar['bar']} | {bar['figure']} | {bar['wanted']} |" for bar in missed]
    return "\n".join(["| bar | figure | wanted |", "| --- | --- | --- |", *lines])


def _unmeasured(results: Results) -> str:
    lines = []
    for suite, records in groupby(sorted(results.left_out, key=lambda one: one["suite"]), lambda one: one["suite"]):
        lines.append(f"- `{suite}`: {'; '.join(record['title'] for record in records)}")
    return "\n".join(lines)
