"""`python -m eval model`: the table, the plot, and the model held against measurements and publications."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval import machine
from eval.model import compare, curves, inputs, laboratory, probe
from eval.model.inputs import InputError, Link, Load, Rates
from eval.records import Results


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--rates", type=Path, default=inputs.MEASURED, help="default: measured.json beside the model")
    parser.add_argument("--kernels", type=Path, help="google-benchmark's JSON of make bench-native: rates, and a check")
    parser.add_argument(
        "--results", type=Path, nargs="+", default=[], help="runs on one machine: rates; of a cluster: a check"
    )
    parser.add_argument("--probe", action="store_true", help="measure here what a block and a task cost")
    parser.add_argument(
        "--fit",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="of eval scale --out: fitted to few executors, more predicted",
    )
    parser.add_argument("--save", type=Path, help="write the rates that come out of these")
    parser.add_argument("--plot", type=Path, help="an SVG file")
    parser.add_argument("--cores", type=int, default=16, help="of a node, for tasks")
    parser.add_argument("--rows", type=float, default=10e6, help="a node and epoch")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--windows", type=float, default=1.0, help="that close in an epoch")
    parser.add_argument("--in-memory", action="store_true", help="the table without Spark: rows in native memory")
    link = Link()
    parser.add_argument("--gbit", type=float, default=link.bytes_per_s * 8e-9, help="of the link")
    parser.add_argument("--latency-us", type=float, default=link.latency_s * 1e6, help="of a small READ")
    parser.add_argument("--queue-pairs", type=int, default=link.queue_pairs, help="that a card makes")
    parser.add_argument("--cached", type=int, default=link.cached, help="of those, at full rate")


def main(args: argparse.Namespace) -> int:
    """2 if a rate is missing."""
    if args.fit:
        return _fit(args.fit)
    try:
        benchmarks = json.loads(args.kernels.read_text())["benchmarks"] if args.kernels else []
        rates = _rates(args, benchmarks)
        checks = compare.kernels(rates, benchmarks) if benchmarks else []
        results = Results.load(args.results)
        rates = compare.of_runs(rates, results)
    except (InputError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    checks += compare.clusters(rates, results)
    link = Link(args.latency_us * 1e-6, args.gbit * 1e9 / 8, args.queue_pairs, args.cached)
    load = Load(args.rows, args.keys, args.windows)
    print(f"rates: {', '.join(f'{name} {value:.3g}' for name, value in vars(rates).items())}")
    print(f"link (assumed): {link}\na node: {args.cores} cores, {load.rows:,.0f} rows an epoch, {load.keys:,} keys\n")
    shown = rates.in_memory() if args.in_memory else rates
    print(curves.table(shown, link, args.cores, load))
    print(f"\nthe faster way:\n{curves.winners(shown, link, args.cores, load)}")
    if checks:
        print(f"\n  {'check':58} {'measured':>9} {'predicted':>9}")
        print(*checks, sep="\n")
    print("", *compare.published(rates, link, args.cores), sep="\n")
    if args.save:
        inputs.save(args.save, rates, _sources(results))
    if args.plot:
        from eval.report.drawing import save_all

        save_all(args.plot, 6.4, curves.paints(rates, link, args.cores, load), columns=2)
        print(f"\nplot: {args.plot}")
    return 0


def _fit(files: list[Path]) -> int:
    try:
        for record in laboratory.records(files):
            print(f"{record['command']}\n  {'':58} {'measured':>9} {'predicted':>9}")
            print(*laboratory.checks(record), laboratory.fit(record), "", sep="\n")
    except (InputError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _rates(args: argparse.Namespace, benchmarks: list[dict[str, Any]]) -> Rates:
    rates = inputs.load(args.rates)
    if benchmarks:
        context = json.loads(args.kernels.read_text())["context"]
        rates = inputs.of_kernels(replace(rates, hz=float(context["mhz_per_cpu"]) * 1e6), benchmarks)
    return probe.tasks(probe.blocks(rates)) if args.probe else rates


def _sources(results: Results) -> dict[str, Any]:
    return {
        "measured": datetime.now(UTC).date().isoformat(),
        "machine": machine.describe(),
        "sessions": sorted(results.sessions()),
        "command": shlex.join(["python", "-m", "eval", *(Path(word).name for word in sys.argv[1:])]),
    }
