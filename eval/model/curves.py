"""Tables and plots over 1 to 1,024 nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from eval.model.compare import PUBLISHED_NODES, PUBLISHED_RATIOS
from eval.model.costs import WAYS, limits
from eval.model.inputs import Link, Load, Nodes, Rates
from eval.report.drawing import plain_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COUNTS = tuple(1 << power for power in range(11))
_COMPARED = (2, 16, 64, 256, 1024)
_LATE = ("late merge", "unfolded")  # a tree is not built
_COLOURS = {"late merge": "#2f7ed8", "unfolded": "#1aa6b7", "tree": "#4d9d54", "repartition": "#a05ad5"}


def table(rates: Rates, link: Link, cores: int, load: Load, counts: Sequence[int] = COUNTS) -> str:
    """For each way and number of nodes: rate, seconds of an epoch, its largest phase, connections, limits passed."""
    lines = [f"{'nodes':>5} {'way':12} {'M rows/s':>10} {'epoch s':>8}  {'largest':>14} {'QPs a card':>10}  past"]
    for count in counts:
        for name, way in WAYS.items():
            epoch = way(rates, link, Nodes(count, cores), load)
            rate = load.rows * count / epoch.seconds / 1e6
            share = epoch.phases[epoch.largest] / epoch.seconds
            largest = f"{epoch.largest} {share:.0%}"
            lines.append(
                f"{count:>5} {name:12} {rate:>10,.1f} {epoch.seconds:>8.3f}  {largest:>14} {epoch.queue_pairs:>10,}  "
                + "; ".join(limits(epoch, link))
            )
    return "\n".join(lines)


def winners(rates: Rates, link: Link, cores: int, load: Load) -> str:
    """By keys and nodes: the faster of late merge, folded or not, and repartitioning, and by how much."""
    lines = [f"{'keys':>10}" + "".join(f"{f'{count:,} nodes':>18}" for count in _COMPARED)]
    for keys in (load.keys * 10**power for power in range(4)):
        cells = []
        for count in _COMPARED:
            nodes, of_keys = Nodes(count, cores), replace(load, keys=keys)
            seconds = {name: WAYS[name](rates, link, nodes, of_keys).seconds for name in (*_LATE, "repartition")}
            late = min(_LATE, key=lambda name: seconds[name])
            ahead = seconds["repartition"] / seconds[late]
            cells.append(f"{f'{late} {ahead:.1f}x' if ahead >= 1 else f'repartition {1 / ahead:.1f}x':>18}")
        lines.append(f"{keys:>10,}" + "".join(cells))
    return "\n".join(lines)


def throughput(rates: Rates, link: Link, cores: int, load: Load, title: str, axes: Axes) -> None:
    """Rows a second of all nodes, as a multiple of one node's by late merge."""
    one = _rate("late merge", rates, link, Nodes(1, cores), load)
    for name, colour in _COLOURS.items():
        rate = [_rate(name, rates, link, Nodes(count, cores), load) / one for count in COUNTS]
        axes.plot(COUNTS, rate, color=colour, marker="o", markersize=3.5, label=name)
    axes.plot(COUNTS, COUNTS, color="#808080", linestyle="--", linewidth=1)
    _axes(axes, title, "times one node")


def ratio(rates: Rates, link: Link, cores: int, loads: dict[str, Load], axes: Axes) -> None:
    """Late merge over repartitioning, and the band that Slash's authors measured."""
    for (name, load), style in zip(loads.items(), ("-", "--", ":"), strict=False):
        values = []
        for count in COUNTS:
            nodes = Nodes(count, cores)
            best = max(_rate(way, rates, link, nodes, load) for way in ("late merge", "unfolded", "tree"))
            values.append(best / _rate("repartition", rates, link, nodes, load))
        axes.plot(COUNTS, values, color="#2f7ed8", linestyle=style, label=name)
    low, high = PUBLISHED_RATIOS
    axes.fill_between(
        [PUBLISHED_NODES[0], PUBLISHED_NODES[-1]],
        low,
        high,
        color="#e0632f",
        alpha=0.35,
        linewidth=0,
        label="published",
    )
    axes.axhline(1, color="#808080", linewidth=1)
    _axes(axes, "best late merge / repartition", "ratio")
    axes.set_yscale("linear")
    axes.set_ylim(bottom=0)


def latency(rates: Rates, link: Link, cores: int, load: Load, title: str, axes: Axes) -> None:
    """Seconds of an epoch with few rows."""
    for name, colour in _COLOURS.items():
        seconds = [WAYS[name](rates, link, Nodes(count, cores), load).seconds for count in COUNTS]
        axes.plot(COUNTS, seconds, color=colour, marker="o", markersize=3.5, label=name)
    _axes(axes, title, "seconds of an epoch")


def paints(rates: Rates, link: Link, cores: int, load: Load) -> list:
    """Rows in native memory; under Spark; an epoch of few rows; the ratio of the two ideas."""
    few = Load(rows=10_000, keys=load.keys, windows=load.windows)
    bare = rates.in_memory()
    many_keys = Load(load.rows, load.keys * 100, load.windows)
    ratios = {f"{load.keys:,} keys": load, f"{many_keys.keys:,} keys": many_keys}
    return [
        partial(throughput, bare, link, cores, load, "throughput, rows in native memory"),
        partial(throughput, rates, link, cores, load, "throughput under Spark"),
        partial(latency, rates, link, cores, few, f"an epoch of {few.rows:,.0f} rows a node"),
        partial(ratio, bare, link, cores, ratios),
    ]


def _rate(way: str, rates: Rates, link: Link, nodes: Nodes, load: Load) -> float:
    return load.rows * nodes.count / WAYS[way](rates, link, nodes, load).seconds


def _axes(axes: Axes, title: str, label: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(COUNTS[::2], [f"{count:,}" for count in COUNTS[::2]])
    plain_ticks(axes, "y")
    axes.minorticks_off()
    axes.set_xlabel("nodes")
    axes.set_ylabel(label)
    axes.set_title(title)
    axes.legend(fontsize=8)
