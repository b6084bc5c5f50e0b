"""The plots of a report. Each is (caption, SVG), and is there only if its figures were taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from eval.records import Comparison, Results, Runs
from eval.report import sweeps
from eval.report.drawing import colour, draw, draw_all, number, plain_ticks, save_all
from eval.report.sweeps import Parameter, Sweep
from eval.suites import LARGE, SLIDING, TUMBLING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Plot = tuple[str, str]
HEADLINE = (TUMBLING, SLIDING, LARGE)

SLASH_CYCLES = 53  # cycles a record that Slash's authors give for their prototype (SIGMOD 2022)
_LEAST_BATCHES = 20  # in one run: fewer make no distribution
_ROW_INCHES = 0.27


def throughput(results: Results, baseline: str) -> Iterator[Plot]:
    """A bar an engine for each comparison, with the spread of its runs and its ratio to the baseline beside them.

    What is a point of a curve is left to the curve.
    """
    swept = sweeps.swept(results.comparisons)
    for comparison in results.comparisons:
        measured = comparison.measured
        if len(measured) < 2 or "nodes" in comparison.first or id(comparison) in swept:
            continue
        paint = partial(_throughput, comparison, measured, baseline)
        yield comparison.title, draw(0.7 + _ROW_INCHES * len(measured), paint)


def save_headline(path: Path, results: Results, baseline: str) -> None:
    """The throughput of the headline's comparisons, to be shown where a report is not: a file by its suffix.

    Raises:
        ValueError: one of them was not measured.
    """
    found = {comparison.title: comparison for comparison in results.comparisons if comparison.measured}
    if missing := [title for title in HEADLINE if title not in found]:
        raise ValueError(f"the results have no {', no '.join(missing)}")
    paints = [partial(_headline, found[title], baseline) for title in HEADLINE]
    save_all(path, sum(0.9 + _ROW_INCHES * len(found[title].measured) for title in HEADLINE), paints, columns=1)


def _headline(comparison: Comparison, baseline: str, axes: Axes) -> None:
    _throughput(comparison, comparison.measured, baseline, axes)
    axes.set_title(comparison.title)


def _throughput(comparison: Comparison, measured: list[Runs], baseline: str, axes: Axes) -> None:
    most = max(max(runs.rates) for runs in measured) / 1e6
    for row, runs in enumerate(measured):
        rate = (runs.rate or 0) / 1e6
        bar = axes.barh(row, rate, color=colour(runs.engine), height=0.68, alpha=0.45 if runs.is_bound else 0.95)
        if runs.is_bound:
            bar[0].set_hatch("///")
        low, high = min(runs.rates) / 1e6, max(runs.rates) / 1e6
        axes.plot([low, high], [row, row], color="#808080", linewidth=1.6, solid_capstyle="butt")
        ratio = comparison.ratio(runs.engine, baseline)
        label = f"{rate:.3g}" + (f"  ({ratio:.3g}x)" if ratio and runs.engine != baseline else "")
        axes.text(max(high, rate) + most * 0.012, row, label, va="center")
    axes.set_yticks(range(len(measured)), [runs.engine for runs in measured])
    axes.invert_yaxis()
    axes.set_xlim(0, most * 1.17)
    axes.set_xlabel(f"M rows/s (ratio to {baseline})")
    axes.grid(axis="y", visible=False)


def ratios(results: Results, baseline: str) -> Iterator[Plot]:
    """All ratios to the baseline, each of one session, on one logarithmic axis."""
    rows = [
        (comparison, [runs for runs in comparison.measured if runs.engine != baseline])
        for comparison in results.comparisons
        if any(runs.engine == baseline for runs in comparison.measured) and "nodes" not in comparison.first
    ]
    rows = [(comparison, others) for comparison, others in rows if others]
    if rows:
        yield (
            f"Throughput over that of {baseline}, of the same session and workload",
            draw(1.0 + 0.3 * len(rows), partial(_dots, rows, lambda c, r: c.ratio(r.engine, baseline), "ratio", 1)),
        )


def cycles(results: Results) -> Iterator[Plot]:
    """CPU cycles a row of the whole application, where CPU time was taken."""
    rows = [
        (comparison, [runs for runs in comparison.measured if runs.cycles])
        for comparison in results.comparisons
        if any(runs.cycles for runs in comparison.measured) and "nodes" not in comparison.first
    ]
    if rows:
        label = f"CPU cycles a row, all processes (line: {SLASH_CYCLES}, Slash's own figure for its update)"
        yield (
            "Cycles a row, end to end",
            draw(1.0 + 0.3 * len(rows), partial(_dots, rows, lambda _, runs: runs.cycles, label, SLASH_CYCLES)),
        )


def _dots(
    rows: list[tuple[Comparison, list[Runs]]],
    figure: Callable[[Comparison, Runs], float | None],
    label: str,
    line: float,
    axes: Axes,
) -> None:
    named = set()
    for row, (comparison, measured) in enumerate(rows):
        for runs in measured:
            value = figure(comparison, runs)
            axes.plot(
                value,
                row,
                marker="D" if runs.is_bound else "o",
                color=colour(runs.engine),
                markersize=7,
                linestyle="none",
                label=None if runs.engine in named else runs.engine,
            )
            named.add(runs.engine)
    axes.axvline(line, color="#808080", linewidth=1, linestyle="--")
    axes.set_xscale("log")
    plain_ticks(axes, "x")
    axes.set_yticks(range(len(rows)), [_short(comparison.title) for comparison, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(label)
    _legend(axes)


def latency(results: Results) -> Iterator[Plot]:
    """The distribution of micro-batches' durations, where there are enough of them."""
    for comparison in results.comparisons:
        measured = [runs for runs in comparison.measured if runs.most_batches >= _LEAST_BATCHES]
        if measured and "nodes" not in comparison.first:
            yield comparison.title, draw(2.9, partial(_distribution, measured))


def _distribution(measured: list[Runs], axes: Axes) -> None:
    for runs in measured:
        durations = sorted(runs.batches)
        share = [(at + 1) / len(durations) for at in range(len(durations))]
        axes.step(durations, share, where="post", color=colour(runs.engine), linewidth=1.8, label=runs.engine)
    axes.set_xscale("log")
    plain_ticks(axes, "x")
    axes.set_ylim(0, 1)
    axes.set_ylabel("share of micro-batches")
    axes.set_xlabel("milliseconds of a micro-batch, at most")
    _legend(axes)


def skew(results: Results) -> Iterator[Plot]:
    """Throughput by skew, and the same over that of uniform keys."""
    for sweep in sweeps.sweeps(results.comparisons, sweeps.SKEW):
        absolute = partial(_curve, sweep, "Zipf exponent of the keys", "M rows/s", _rate, False, False)
        relative = partial(_curve, sweep, "Zipf exponent of the keys", "times the first point", _of_first, False, True)
        yield sweep.title, draw_all(2.9, [absolute, relative])


def over(results: Results, parameter: Parameter, label: str) -> Iterator[Plot]:
    """Throughput by a parameter, both axes logarithmic."""
    for sweep in sweeps.sweeps(results.comparisons, parameter):
        yield sweep.title, draw(2.9, partial(_curve, sweep, label, "M rows/s", _rate, True, True))


def scaling(results: Results) -> Iterator[Plot]:
    """Throughput by nodes, and as a multiple of one node's; the grey line is proportional."""
    for sweep in sweeps.scaling(results.comparisons):
        absolute = partial(_curve, sweep, "nodes", "M rows/s", _rate, True, False)
        yield sweep.title, draw_all(2.9, [absolute, partial(_speedup, sweep)])


def _speedup(sweep: Sweep, axes: Axes) -> None:
    _curve(sweep, "nodes", "times the first point", _of_first, True, True, axes)
    values = sweep.values
    axes.plot(values, [value / values[0] for value in values], color="#808080", linestyle="--", linewidth=1)


def _rate(points: list[sweeps.Point]) -> list[float]:
    return [(runs.rate or 0) / 1e6 for _, runs in points]


def _of_first(points: list[sweeps.Point]) -> list[float]:
    rates = _rate(points)
    return [rate / rates[0] for rate in rates]


def _curve(
    sweep: Sweep,
    x_label: str,
    y_label: str,
    figure: Callable[[list[sweeps.Point]], list[float]],
    logarithmic: bool,
    legend: bool,
    axes: Axes,
) -> None:
    for engine, points in sweep.curves.items():
        axes.plot([x for x, _ in points], figure(points), marker="o", color=colour(engine), label=engine)
    if logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
        plain_ticks(axes, "xy")
        axes.set_xticks(sweep.values, [number(value) for value in sweep.values])
        axes.minorticks_off()
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if legend:
        _legend(axes)


def _legend(axes: Axes) -> None:
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8.5)


def _short(title: str, most: int = 46) -> str:
    return title if len(title) <= most else title[: most - 1] + "…"
