"""The model against what was measured (kernels with 2 and 16 executors on one core; clusters), and against Slash."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from eval.model.costs import groups_read, late_merge, occupied, repartition, segments_of, tree, unfolded
from eval.model.inputs import BENCHMARK_ROWS, SHARED_MEMORY, Link, Load, Nodes, Rates, medians, of_kernels
from eval.records import Comparison, Results, Runs

# Slash over RDMA repartitioning on YSB, the least and the most of its authors' runs on 2 to 16 nodes; its cycles a
# record (SIGMOD 2022).
PUBLISHED_NODES = (2, 4, 8, 16)
PUBLISHED_RATIOS = (6.8, 12.3)
PUBLISHED_CYCLES = 53
_FEW_ROWS, _MANY_ROWS = 2_000, 1_000_000  # of a micro-batch
_WAYS = {"slash": late_merge, "slash-repartition": repartition}


@dataclass(frozen=True)
class Check:
    """A figure, measured and predicted. `given`: the model was fitted to it, so that it proves nothing."""

    what: str
    unit: str
    measured: float
    predicted: float
    given: bool = False

    @property
    def off(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured

    def __str__(self) -> str:
        end = "fitted" if self.given else f"{self.off:.2f}x"
        return f"  {self.what:58} {self.measured:>9.2f} {self.predicted:>9.2f} {self.unit:12} {end}"


def kernels(rates: Rates, benchmarks: list[Mapping[str, Any]]) -> list[Check]:
    """Cycles a record of whole strategies on one core, from the rates of their parts.

    Raises:
        InputError: the strategies' parts are not among the benchmarks.
    """
    checks = []
    measured = medians(benchmarks)
    for plan in ("ysb", "sums"):
        named = {name: counters for name, counters in measured.items() if name.startswith(f"strategy/{plan}_")}
        if not named:
            continue
        sources = [next(name for name in named if f"_{way}/" in name) for way in ("merge", "repartition")]
        for name, counters in named.items():
            _, way, keys, executors = name.split("/")[:4]
            parts = of_kernels(rates, benchmarks, plan, int(keys))
            cycles, read = (_late if way.endswith("_merge") else _early)(parts, int(keys), int(executors))
            what = f"{way}, {int(keys):,} keys, {executors} executors on one core"
            is_source = name in sources
            fitted = is_source and way.endswith("_repartition")
            checks.append(Check(what, "cycles/row", counters["cycles/record"], cycles, fitted))
            checks.append(Check(what, "bytes/row", counters["bytes/record"], read, is_source))
    return checks


def _late(parts: Rates, keys: int, executors: int) -> tuple[float, float]:
    """Cycles a row of update, seal and merge by as many owners as executors, and bytes a row that owners read."""
    groups = occupied(keys, BENCHMARK_ROWS / executors)
    read, useful = groups_read(groups, executors, segments_of(groups))
    all_read = read * executors * executors / BENCHMARK_ROWS
    merged = useful * parts.merge + (1 - useful) * parts.skip
    sealed = groups * executors / BENCHMARK_ROWS
    return parts.update + sealed * parts.seal + all_read * merged, all_read * parts.group_bytes


def _early(parts: Rates, keys: int, executors: int) -> tuple[float, float]:
    return parts.partition + parts.own, parts.row_bytes


def of_runs(rates: Rates, results: Results, engine: str = "slash") -> Rates:
    """With `epoch_s` and `ingest_s` of this engine's runs on one machine, as far as there are any.

    `epoch_s` is a micro-batch of the fewest rows (if they are few), `ingest_s` what one of the most takes beyond that.
    """
    found = [
        (comparison.workload["rows"] / comparison.workload["batches"], comparison, comparison.engines[engine])
        for comparison in results.comparisons
        if "nodes" not in comparison.first and engine in comparison.engines and comparison.engines[engine].batches
    ]
    found.sort(key=lambda one: one[0])
    if found and found[0][0] <= _FEW_ROWS:
        rates = replace(rates, epoch_s=statistics.median(found[0][2].batches) / 1e3)
    if found and found[-1][0] >= _MANY_ROWS:
        rows, comparison, runs = found[-1]
        cores = comparison.first["machine"]["cores"]
        seconds = statistics.median(runs.batches) / 1e3 - rates.epoch_s
        rates = replace(rates, ingest_s=max(0.0, seconds * cores / rows - rates.seconds(rates.update)))
    return rates


def clusters(rates: Rates, results: Results, link: Link = SHARED_MEMORY) -> list[Check]:
    """Epochs of a cluster's runs; each engine's cost of a row is fitted to its smallest cluster."""
    checks = []
    groups: dict[tuple[str, str, str], list[tuple[int, Comparison, Runs]]] = {}
    for comparison in results.comparisons:
        first = comparison.first
        for engine, runs in comparison.engines.items():
            if "nodes" in first and engine in _WAYS and runs.batches:
                key = (comparison.session, str(first.get("scaling")), engine)
                groups.setdefault(key, []).append((int(first["nodes"]), comparison, runs))
    for (_, kind, engine), steps in groups.items():
        steps.sort(key=lambda step: step[0])
        fitted = fit(rates, link, *steps[0], engine)
        for nodes, comparison, runs in steps:
            predicted = _WAYS[engine](fitted, link, *_shape(nodes, comparison, runs)).seconds * 1e3
            what = f"{engine}, {kind} scaling, {nodes} node{'s' * (nodes != 1)}"
            checks.append(
                Check(what, "ms an epoch", statistics.median(runs.batches), predicted, given=nodes == steps[0][0])
            )
    return checks


def fit(rates: Rates, link: Link, nodes: int, comparison: Comparison, runs: Runs, engine: str) -> Rates:
    """With the seconds that a row costs before it reaches native code, so that the model gives this measured epoch."""
    shape = _shape(nodes, comparison, runs)
    without = _WAYS[engine](replace(rates, ingest_s=0.0), link, *shape).seconds
    rows_a_core = shape[1].rows / shape[0].cores
    return replace(rates, ingest_s=max(0.0, statistics.median(runs.batches) / 1e3 - without) / rows_a_core)


def published(rates: Rates, link: Link, cores: int) -> list[str]:
    """Our ratio on as many nodes as Slash's authors had, rows in memory, beside theirs."""
    load = Load(rows=10_000_000, keys=10_000)
    bare = rates.in_memory()
    lines = []
    for name, way in (("late merge", late_merge), ("unfolded", unfolded), ("tree", tree)):
        ours = []
        for count in PUBLISHED_NODES:
            nodes = Nodes(count, cores)
            ours.append(f"{repartition(bare, link, nodes, load).seconds / way(bare, link, nodes, load).seconds:.1f}x")
        lines.append(f"{name} over repartitioning on {', '.join(map(str, PUBLISHED_NODES))} nodes: {', '.join(ours)}")
    least, most = PUBLISHED_RATIOS
    implied = f"{least * PUBLISHED_CYCLES:.0f} to {most * PUBLISHED_CYCLES:.0f}"
    spent = rates.partition + rates.own
    wire = link.bytes_per_s / rates.row_bytes
    return [
        f"YSB, rows in native memory, {cores} cores a node:",
        *lines,
        f"published, 2 to 16 nodes: {least} to {most}x, at {PUBLISHED_CYCLES} cycles a record",
        f"those ratios ask for {implied} cycles a record of their repartitioning, waiting included; ours spends "
        f"{spent:.0f}, and {rates.update:.0f} in late merge's update",
        f"the link carries {wire / 1e6:.0f} M rows/s of {rates.row_bytes:.0f} bytes into a node: "
        f"{cores * rates.hz / wire:.0f} cycles of its cores a row",
    ]


def _shape(nodes: int, comparison: Comparison, runs: Runs) -> tuple[Nodes, Load]:
    workload = comparison.workload
    conf = next((record["conf"] for record in runs.records if record.get("conf")), {})
    batches = workload["batches"]
    windows = workload["span_s"] / batches / workload.get("window_s", 10)
    keys = workload.get("keys") or workload.get("campaigns") or 1
    cores = int(conf.get("spark.executor.cores", 1))
    return Nodes(nodes, cores), Load(workload["rows"] / batches / nodes, keys, windows)
