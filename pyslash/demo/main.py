"""The demo: two inputs, each run on both engines, compared, and a table at the end."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pyslash.demo.compare import differences, read_rows
from pyslash.demo.flights import DemoDataError, Input, Late, Windows, late_rows, read_flights, write_files, write_years
from pyslash.demo.run import DemoRunError, Run, run_job
from pyslash.errors import RowBridgeUnavailableError
from pyslash.spark.jvm_bridge import jar_path

_HERE = Path(__file__).resolve().parent
_CHECKOUT = _HERE.parents[1]
KEYS = ("carrier", "origin")
YEARS_FILES = 4
QUICK_FLIGHTS, QUICK_FILES = 20_000, 24
PLAIN, SLASH = "plain Spark", "pyslash"


@dataclass(frozen=True)
class Part:
    """The job over one input, a number of files in each micro-batch."""

    name: str
    data: Input
    files_per_trigger: int
    windows: Windows

    @property
    def arguments(self) -> list[str]:
        """Those of the job that are not the same in every part."""
        windows = ["--window", self.windows.window, "--slide", self.windows.slide]
        return ["--files-per-trigger", str(self.files_per_trigger), *windows, "--keys", ",".join(KEYS)]

    @property
    def late(self) -> Late:
        """How many of its rows are late."""
        return late_rows(self.data.event_times(self.files_per_trigger), self.windows)


@dataclass(frozen=True)
class Outcome:
    """Both engines on one part: rows that each emitted, and the first differences between them."""

    part: Part
    runs: list[Run]
    emitted: list[int]
    differences: list[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `pyslash demo`."""
    parser.add_argument("--files", type=_positive, default=365, help="number of input files (default: 365)")
    parser.add_argument("--files-per-trigger", type=_positive, default=8, help="files in each micro-batch (default: 8)")
    parser.add_argument("--limit", type=_positive, help="only the first LIMIT flights")
    parser.add_argument("--years", type=_number, default=120, help="years in the second part (default: 120; 0: none)")
    parser.add_argument(
        "--quick", action="store_true", help=f"the first {QUICK_FLIGHTS:,} flights alone: does this installation work?"
    )
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="work in this new folder, and keep it")


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)


def _positive(text: str) -> int:
    if not _number(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def main(args: argparse.Namespace) -> int:
    """Run the demo. Returns 0 if both engines gave the same rows, 1 otherwise or if a run failed."""
    if args.quick:
        args.limit, args.files, args.years = QUICK_FLIGHTS, QUICK_FILES, 0
    job, conf = _part_of_the_project("examples", "flights.py"), _part_of_the_project("spark-conf", "slash.conf")
    workspace = args.keep.resolve() if args.keep else Path(tempfile.mkdtemp(prefix="pyslash-demo-"))
    keeps = bool(args.keep)
    try:
        workspace.mkdir(parents=True, exist_ok=True)
        if any(workspace.iterdir()):
            raise DemoDataError(f"{workspace} is not empty: name another folder to keep the demo's files in")
        return _demo(args, job, conf, workspace)
    except (DemoDataError, DemoRunError, RowBridgeUnavailableError, OSError) as error:
        keeps = keeps or isinstance(error, DemoRunError)  # whose message names a log there
        print(f"\n{error}", file=sys.stderr)
        return 1
    finally:
        if not keeps:
            shutil.rmtree(workspace, ignore_errors=True)


def _part_of_the_project(folder: str, file: str) -> Path:
    """A file of the checkout, which a wheel has in `job/`."""
    inside = _CHECKOUT / folder / file
    return inside if inside.exists() else _HERE / "job" / file


def _demo(args: argparse.Namespace, job: Path, conf: Path, workspace: Path) -> int:
    cores = len(os.sched_getaffinity(0))
    # Spark's default of 200 shuffle partitions would make plain Spark slower than it has to be on one machine.
    fair = f"spark.sql.shuffle.partitions={cores}"
    both = ["--master", f"local[{cores}]", "--conf", fair]
    if args.quick:
        # What a better compiler would make of the code comes too late for a run of seconds.
        java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        both += ["--driver-java-options", java, "--conf", "spark.ui.enabled=false"]
    # Else plain Spark, beside itself, would pass for pyslash.
    required = ["--conf", "spark.slash.mode=require"]
    options = {PLAIN: both, SLASH: ["--jars", str(jar_path()), "--properties-file", str(conf), *required, *both]}
    print(f"The job, unmodified, on both engines: {job}")
    print(f"Both: local[{cores}], {fair}")
    flights = read_flights().head(args.limit)
    data = write_files(flights, workspace / "flights", args.files)
    outcomes = [
        _run(
            Part("a year" if args.limit is None else "a part", data, args.files_per_trigger, Windows()),
            job,
            options,
            workspace,
            at_once=args.quick,
        )
    ]
    if args.years:
        data = write_years(flights, workspace / "years", min(YEARS_FILES, args.years), args.years)
        many = Windows(window="28 days", slide="1 day")
        outcomes.append(_run(Part(f"{args.years} years", data, 1, many), job, options, workspace))
        if not args.keep:
            shutil.rmtree(data.folder)
    return _report(outcomes, at_once=args.quick)


def _run(part: Part, job: Path, options: dict[str, list[str]], workspace: Path, *, at_once: bool = False) -> Outcome:
    rows, late = sum(part.data.rows), part.late
    print(f"\n{part.name}: {rows:,} flights in {len(part.data.rows)} files, {part.files_per_trigger} a micro-batch;")
    print(f"  windows of {part.windows.window}, every {part.windows.slide}, by {' and '.join(KEYS)};")
    if late.rows:
        print(
            f"  {late.rows:,} of them come after a window of theirs has closed; {late.dropped:,} after all of them have"
        )
    else:
        print("  no flight is late, because a micro-batch holds years")

    def run(name: str) -> Run:
        line = _Line(shows=not at_once)
        home = workspace / f"{part.name}, {name}".replace(", ", "-").replace(" ", "-")
        done = run_job(name, job, part.data, home, part.files_per_trigger, options[name], part.arguments, line.show)
        line.end()
        return done

    if at_once:
        with ThreadPoolExecutor(len(options)) as threads:
            runs = list(threads.map(run, options))
    else:
        runs = [run(name) for name in options]
    expected, found = (read_rows(run.output) for run in runs)
    keys = ("window.start", "window.end", *KEYS)
    return Outcome(
        part, runs, [expected.num_rows, found.num_rows], list(islice(differences(expected, found, keys), 10))
    )


def _report(outcomes: list[Outcome], *, at_once: bool) -> int:
    """Print the table. Returns 0 if all rows were the same."""
    columns = f"{'rows in':>11} {'rows out':>10} {'batches':>8} {'seconds':>8}"
    if not at_once:
        columns += f" {'rows/s':>11} {'ratio':>7}"
    print(f"\n{'':10} {'':12} {columns}")
    for outcome in outcomes:
        for run, emitted in zip(outcome.runs, outcome.emitted, strict=True):
            line = f"{outcome.part.name:10} {run.name:12} {run.rows:>11,} {emitted:>10,} {run.batches:>8}"
            ratio = run.rate / outcome.runs[0].rate
            print(f"{line} {run.seconds:>8.1f}" + ("" if at_once else f" {run.rate:>11,.0f} {ratio:>6.1f}x"))
    print("(seconds from the start of the stream to its last commit, without the start of the JVM)")
    if at_once:
        print("(both at the same time: `pyslash demo` shows which is faster)")
    for outcome in outcomes:
        verdict = "NO" if outcome.differences else "yes"
        print(f"Results identical row by row, {outcome.part.name}: {verdict}")
        for difference in outcome.differences:
            print(f"  {difference}", file=sys.stderr)
    return 1 if any(outcome.differences for outcome in outcomes) else 0


class _Line:
    """A line rewritten in place on a terminal; elsewhere a new line every few seconds' worth of changes."""

    EVERY = 10  # changes between two lines where there is no terminal

    def __init__(self, *, shows: bool = True) -> None:
        """`shows`: else the last one alone is printed."""
        self._shows = shows
        self._terminal = shows and sys.stdout.isatty()
        self._last = ""
        self._changes = 0

    def show(self, text: str) -> None:
        if text == self._last:
            return
        self._last = text
        if not self._shows:
            return
        if self._terminal:
            print(f"\r{text:100}", end="", flush=True)
        else:
            if self._changes % self.EVERY == 0:
                print(text, flush=True)
            self._changes += 1

    def end(self) -> None:
        if self._terminal:
            print()
        else:
            print(self._last, flush=True)
