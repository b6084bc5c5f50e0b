"""Comparisons of one session that differ in one parameter: a curve for each engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from eval.records import Comparison, Runs

Point = tuple[float, Runs]


@dataclass
class Sweep:
    """`curves` maps engines to (value of the parameter, runs), ascending; `title` says what stayed the same."""

    session: str
    title: str
    curves: dict[str, list[Point]] = field(default_factory=dict)

    @property
    def values(self) -> list[float]:
        """All values of the parameter, ascending."""
        return sorted({value for points in self.curves.values() for value, _ in points})


@dataclass(frozen=True)
class Parameter:
    """A parameter of a workload by any of its names, or what `read` finds in a comparison."""

    names: tuple[str, ...]
    read: Callable[[Comparison], float | None] | None = None

    def value(self, comparison: Comparison) -> float | None:
        """Of a comparison; None if it has no such parameter."""
        if self.read is not None:
            return self.read(comparison)
        found = [comparison.workload[name] for name in self.names if name in comparison.workload]
        return float(found[0]) if found else None

    def rest(self, comparison: Comparison) -> dict[str, object]:
        """The parameters that stay."""
        return {name: value for name, value in comparison.workload.items() if name not in self.names}


SKEW = Parameter(("skew",))
CARDINALITY = Parameter(("keys", "campaigns"))
SLIDE = Parameter(("slide_s",))
BATCH_ROWS = Parameter(
    ("batches",),
    read=lambda comparison: (
        comparison.workload["rows"] / comparison.workload["batches"]
        if comparison.workload.get("rows") and comparison.workload.get("batches")
        else None
    ),
)


def sweeps(comparisons: Iterable[Comparison], parameter: Parameter) -> list[Sweep]:
    """Curves with two values or more; comparisons of different sessions, or that differ in more, are not joined."""
    found: dict[tuple[str, str], Sweep] = {}
    for comparison in comparisons:
        value = parameter.value(comparison)
        if value is None or "nodes" in comparison.first:
            continue
        rest = parameter.rest(comparison)
        sweep = found.setdefault(
            (comparison.session, json.dumps(rest, sort_keys=True)), Sweep(comparison.session, _words(rest))
        )
        _add(sweep, value, comparison)
    return _curves(found.values())


def swept(comparisons: list[Comparison], least: int = 3) -> set[int]:
    """Which of the comparisons (by `id`) are points of a curve of `least` values or more."""
    found: set[int] = set()
    for parameter in (SKEW, CARDINALITY, SLIDE, BATCH_ROWS):
        for sweep in sweeps(comparisons, parameter):
            if len(sweep.values) >= least:
                points = {id(runs) for curve in sweep.curves.values() for _, runs in curve}
                found |= {
                    id(comparison)
                    for comparison in comparisons
                    if any(id(runs) in points for runs in comparison.engines.values())
                }
    return found


def scaling(comparisons: Iterable[Comparison]) -> list[Sweep]:
    """Curves over the nodes of a cluster, weak and strong ones each by themselves."""
    found: dict[tuple[str, str, str], Sweep] = {}
    for comparison in comparisons:
        first = comparison.first
        if "nodes" not in first:
            continue
        kind = str(first.get("scaling", ""))
        name = str(comparison.workload.get("name", ""))
        sweep = found.setdefault((comparison.session, kind, name), Sweep(comparison.session, f"{name}, {kind} scaling"))
        _add(sweep, float(first["nodes"]), comparison)
    return _curves(found.values())


def _add(sweep: Sweep, value: float, comparison: Comparison) -> None:
    for runs in comparison.engines.values():
        if runs.rate and not runs.failed:
            sweep.curves.setdefault(runs.engine, []).append((value, runs))


def _curves(found: Iterable[Sweep]) -> list[Sweep]:
    kept = []
    for sweep in found:
        curves = {}
        for engine, points in sweep.curves.items():
            # A workload that was measured twice under two titles is one point of the curve: the later one.
            ordered = sorted(dict(points).items())
            if len(ordered) > 1:
                curves[engine] = ordered
        if curves:
            kept.append(Sweep(sweep.session, sweep.title, curves))
    return kept


def _words(rest: dict[str, object]) -> str:
    shown = [f"{name} {value}" for name, value in rest.items() if name not in ("name", "seed", "span_s")]
    return ", ".join([str(rest.get("name", "")), *shown])
