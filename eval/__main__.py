"""`python -m eval run|suite|report|nexmark|model|scale|scale-queries|watch|connect|history|cluster`."""

from __future__ import annotations

import argparse
import importlib
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from eval import machine
from eval.bars import verdicts
from eval.conf import add_conf
from eval.engines import CORES, ENGINES
from eval.records import BASELINE, Results, note
from eval.report import table
from eval.report.page import page
from eval.session import Comparison, Session, say
from eval.steady import Steady
from eval.suites import SUITES, in_order
from eval.workloads import WORKLOADS, Workload

ROOT = Path(__file__).resolve().parents[1]
QUICK_ENGINES = ("slash", "slash-rows", "spark-rocksdb")
# Commands with a module of their own: `add_arguments(parser)` and `main(args) -> exit status`; imported when chosen.
TOOLS = {
    "report": ("eval.report.command", "the table of results files, and one HTML page of them"),
    "nexmark": ("eval.report.nexmark", "the page about NEXMark's queries, with the figures of results files"),
    "keep": ("eval.report.keep", "put a session's results into the repository, as those of README's figures"),
    "model": ("eval.model.command", "throughput and latency on 1 to 1,024 nodes, on paper"),
    "scale": ("eval.scale.command", "what a merge makes each of many executors' agents do, on one machine"),
    "scale-queries": ("eval.scale.queries", "what a whole query costs on each of many executors, on one machine"),
    "watch": ("eval.watch", "what the tab of the Spark UI, the event log and metrics cost in small epochs"),
    "connect": ("eval.connect", "what a stream costs as a client of Spark Connect, over a classic session"),
    "history": ("eval.history.command", "what a backfill and SQL over live state cost, and the query beside them"),
    "cluster": ("eval.cluster.command", "the same measurements on the hosts of a cluster"),
}


def main() -> int:
    """Measure, print the table; 1 if any engine's rows were wrong or an engine failed."""
    parser = argparse.ArgumentParser(prog="python -m eval", description="pyslash against Spark's own state stores")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="one workload on some engines")
    run.add_argument("--workload", choices=WORKLOADS, default="aggregate")
    run.add_argument("--engines", default=",".join(QUICK_ENGINES), help=f"of {', '.join(ENGINES)}")
    run.add_argument("--steady", action="store_true", help="measure the steady part of a long stream: eval/steady.py")
    run.add_argument("--baseline", choices=ENGINES, default=BASELINE)
    for name, kind, text in _parameters():
        run.add_argument(f"--{name.replace('_', '-')}", type=kind, help=text)
    suite = commands.add_parser("suite", help="sets of comparisons, and the bars that they decide")
    suite.add_argument("names", nargs="*", metavar="NAME", help=f"all, or of {', '.join(SUITES)}", default=["all"])
    suite.add_argument("--rows", type=int, default=20_000_000, help="of the headline; others follow")
    suite.add_argument("--engines", help="these alone (default: all that a suite has)")
    suite.add_argument("--minutes", type=float, default=24 * 60.0, help="after these no other comparison begins")
    suite.add_argument("--kernels", type=Path, help="google-benchmark's JSON of `make bench-native`, for its bars")
    suite.add_argument("--report", type=Path, metavar="FILE", help="write all of it as an HTML page")
    for command in (run, suite):
        command.add_argument("--repeats", type=int, default=3)
        command.add_argument("--driver-memory", type=_gib, default=4, metavar="Ng", help="heap of each JVM")
        command.add_argument("--check", choices=("sample", "full"), default="sample", help="if runs keep no rows")
        add_conf(command, "for every Spark engine")
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
    print(f"{CORES} cores, spark.sql.shuffle.partitions={CORES} for every engine; results: {out}\n")
    with Session(args.cache, out, args.repeats, args.driver_memory, args.check == "full", args.conf) as session:
        command = shlex.join(["python", "-m", "eval", *sys.argv[1:]])
        note(out, session.started, command=command, machine=machine.describe())
        if args.command == "run":
            workload = _workload(args)
            steady = Steady() if args.steady else None
            session.compare(Comparison(_title(workload), workload, tuple(args.engines.split(",")), steady=steady))
        else:
            _suites(session, args)
        print(table([each for each in session.records if "engine" in each], getattr(args, "baseline", BASELINE)))
        if args.command == "suite":
            bars = verdicts(session.records, args.kernels)
            for bar in bars:
                session.write({"bar": bar.what, "figure": bar.figure, "wanted": bar.wanted, "met": bar.met})
            print("\nbars", *bars, sep="\n")
            if args.report:
                sources = [out, *(path for path in [args.kernels] if path and path.exists())]
                args.report.write_text(page(Results.load(sources)))
                print(f"\nreport: {args.report}")
    return int(any(record.get("correct") is False or "error" in record for record in session.records))


def _suites(session: Session, args: argparse.Namespace) -> None:
    """The comparisons in order, as long as there is time; those without are named, never passed over in silence."""
    names = list(SUITES) if "all" in args.names else args.names
    wanted = set(args.engines.split(",")) if args.engines else set(ENGINES)
    deadline = time.monotonic() + args.minutes * 60
    for name, whole in in_order(names, args.rows):
        comparison = replace(whole, engines=tuple(engine for engine in whole.engines if engine in wanted))
        if not comparison.engines:
            continue
        if time.monotonic() < deadline:
            session.compare(comparison, name)
        else:
            say(f"{comparison.title}: NOT MEASURED, the {args.minutes:g} minutes are over")
            session.write({"suite": name, "title": comparison.title, "not_measured": "out of time"})


def _gib(text: str) -> int:
    if not text.endswith("g") or not text[:-1].isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of gibibytes, such as 4g")
    return int(text[:-1])


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _parameters() -> list[tuple[str, Callable[[str], Any], str]]:
    """Every parameter of any workload, its type, and which workloads have it."""
    found: dict[str, tuple[Callable[[str], Any], list[str]]] = {}
    for workload in WORKLOADS.values():
        for field in fields(workload):
            kind = _switch if isinstance(field.default, bool) else type(field.default)
            found.setdefault(field.name, (kind, []))[1].append(f"{workload.name}: {field.default}")
    return [(name, kind, ", ".join(where)) for name, (kind, where) in found.items()]


def _workload(args: argparse.Namespace) -> Workload:
    kind = WORKLOADS[args.workload]
    given = {field.name: value for field in fields(kind) if (value := getattr(args, field.name)) is not None}
    workload = kind(**given)
    if kind.pace and "rows" in given and "span_s" not in given:
        workload = kind(**given, span_s=workload.rows / kind.pace)
    return workload


def _title(workload: Workload) -> str:
    parameters = {k: v for k, v in workload.describe().items() if k not in ("name", "seed")}
    return " ".join([workload.name, *(f"{key}={value}" for key, value in parameters.items())])


if __name__ == "__main__":
    sys.exit(main())
