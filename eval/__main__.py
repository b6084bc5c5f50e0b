"""`python -m eval run|bars|report|model|cluster`."""

from __future__ import annotations

import argparse
import importlib
import shlex
import sys
from dataclasses import fields
from datetime import datetime
from pathlib import Path

from eval.bars import BARS, THROUGHPUT_ENGINES
from eval.engines import CORES, ENGINES
from eval.report import BASELINE, table
from eval.report.records import note
from eval.session import Session, read
from eval.workloads import WORKLOADS, Workload

ROOT = Path(__file__).resolve().parents[1]
# Commands with a module of their own: `add_arguments(parser)` and `main(args) -> exit status`; imported when chosen.
TOOLS = {
    "report": ("eval.report.command", "the table of results files, and one HTML page of them"),
    "model": ("eval.model.command", "throughput and latency on 1 to 1,024 nodes, on paper"),
    "cluster": ("eval.cluster.command", "the same measurements on the hosts of a cluster"),
}


def main() -> int:
    """Measure, print the table; 1 if any engine's rows were wrong or no engine ran."""
    parser = argparse.ArgumentParser(prog="python -m eval", description="pyslash against Spark's own state stores")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="one workload on some engines")
    run.add_argument("--workload", choices=WORKLOADS, default="aggregate")
    run.add_argument("--engines", default=",".join(THROUGHPUT_ENGINES), help=f"of {', '.join(ENGINES)}")
    run.add_argument("--baseline", choices=ENGINES, default=BASELINE)
    for name, kind, text in _parameters():
        run.add_argument(f"--{name.replace('_', '-')}", type=kind, help=text)
    bars = commands.add_parser("bars", help="everything that pyslash is held to")
    bars.add_argument("--rows", type=int, default=20_000_000)
    bars.add_argument("--only", default=",".join(BARS), help=f"of {', '.join(BARS)}")
    for command in (run, bars):
        command.add_argument("--repeats", type=int, default=3)
        command.add_argument("--driver-memory", default="4g")
        command.add_argument("--check", choices=("sample", "full"), default="sample", help="rows compared with batch")
        command.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="for every engine")
        command.add_argument("--out", type=Path, help="JSON lines (default: a new file in eval/results)")
        command.add_argument("--cache", type=Path, default=ROOT / "build" / "eval", help="for generated rows and logs")
    for name, (module, text) in TOOLS.items():
        tool = commands.add_parser(name, help=text)
        if name in sys.argv[1:2]:
            importlib.import_module(module).add_arguments(tool)
    args = parser.parse_args()
    if args.command in TOOLS:
        return int(importlib.import_module(TOOLS[args.command][0]).main(args))
    return _measure(args)


def _measure(args: argparse.Namespace) -> int:
    args.cache.mkdir(parents=True, exist_ok=True)
    out = args.out or ROOT / "eval" / "results" / f"{datetime.now():%Y%m%d-%H%M%S}.jsonl"
    conf = dict(setting.split("=", 1) for setting in args.conf)
    session = Session(args.cache, out, args.repeats, args.driver_memory, args.check == "full", conf)
    note(out, session.started, command=shlex.join(["python", "-m", "eval", *sys.argv[1:]]))
    print(f"{CORES} cores, spark.sql.shuffle.partitions={CORES} for every engine; results: {out}\n")
    if args.command == "run":
        workload = _workload(args)
        outcomes = session.compare(_title(workload), workload, args.engines.split(","))
        good = all(outcome.correct is not False and not outcome.error for outcome in outcomes)
        verdicts = []
    else:
        verdicts = [bar for name in args.only.split(",") for bar in BARS[name](session, args.rows)]
        good = all(bar.met is not False for bar in verdicts if bar.wanted == "all")
    if out.exists():
        records = [record for record in read(out) if record["session"] == session.started]
        print(table(records, getattr(args, "baseline", BASELINE)))
    for bar in verdicts:
        note(out, session.started, bar=bar.what, figure=bar.figure, wanted=bar.wanted, met=bar.met)
    if verdicts:
        print("\nbars", *verdicts, sep="\n")
    return 0 if good else 1


def _parameters() -> list[tuple[str, type, str]]:
    """Every parameter of any workload, its type, and which workloads have it."""
    found: dict[str, tuple[type, list[str]]] = {}
    for workload in WORKLOADS.values():
        for field in fields(workload):
            found.setdefault(field.name, (type(field.default), []))[1].append(f"{workload.name}: {field.default}")
    return [(name, kind, ", ".join(where)) for name, (kind, where) in found.items()]


def _workload(args: argparse.Namespace) -> Workload:
    kind = WORKLOADS[args.workload]
    given = {field.name: value for field in fields(kind) if (value := getattr(args, field.name)) is not None}
    workload = kind(**given)
    if "rows" in given and "span_s" not in given:
        workload = kind(**given, span_s=workload.rows / 100_000)
    return workload


def _title(workload: Workload) -> str:
    parameters = {k: v for k, v in workload.describe().items() if k not in ("name", "seed")}
    return " ".join([workload.name, *(f"{key}={value}" for key, value in parameters.items())])


if __name__ == "__main__":
    sys.exit(main())
