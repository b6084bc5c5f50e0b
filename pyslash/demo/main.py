"""The demo from beginning to end: input, two runs, comparison, table."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from itertools import islice
from pathlib import Path

from pyslash.demo.compare import differences, read_rows
from pyslash.demo.flights import DemoDataError, read_flights, write_files
from pyslash.demo.run import DemoRunError, Run, run_job

CHECKOUT = Path(__file__).resolve().parents[2]
KEYS = ("window", "carrier", "origin")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `pyslash demo`."""
    parser.add_argument("--files", type=int, default=365, help="files that the flights are cut into (default: 365)")
    parser.add_argument("--files-per-trigger", type=int, default=8, help="files in a micro-batch (default: 8)")
    parser.add_argument("--limit", type=int, help="only the first so many flights")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="work in this new folder and leave it there")


def main(args: argparse.Namespace) -> int:
    """Run the demo. Returns 0 if both engines gave the same rows, 1 otherwise or if a run failed."""
    job, conf = CHECKOUT / "examples" / "flights.py", CHECKOUT / "spark-conf" / "slash.conf"
    if not job.exists():
        print(f"pyslash demo runs from a checkout of the project: there is no {job}", file=sys.stderr)
        return 1
    workspace = args.keep.resolve() if args.keep else Path(tempfile.mkdtemp(prefix="pyslash-demo-"))
    workspace.mkdir(parents=True, exist_ok=True)
    try:
        return _demo(args, job, conf, workspace)
    except (DemoDataError, DemoRunError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    finally:
        if not args.keep:
            shutil.rmtree(workspace, ignore_errors=True)


def _demo(args: argparse.Namespace, job: Path, conf: Path, workspace: Path) -> int:
    print(f"The job, unmodified, on both engines: {job.relative_to(CHECKOUT)}")
    data = write_files(read_flights().head(args.limit), workspace / "flights", args.files)
    print(f"Input: {sum(data.rows):,} flights in {len(data.rows)} files, {args.files_per_trigger} files a micro-batch")
    cores = len(os.sched_getaffinity(0))
    # Spark's default of 200 shuffle partitions would make plain Spark slower than it has to be on one machine.
    fair = f"spark.sql.shuffle.partitions={cores}"
    plain = ["--master", f"local[{cores}]", "--conf", fair]
    slash = ["--properties-file", str(conf), "--master", f"local[{cores}]", "--conf", fair]
    print(f"Both: local[{cores}], {fair}\n")
    runs = []
    for name, options in (("plain Spark", plain), ("pyslash", slash)):
        line = _Line()
        runs.append(run_job(name, job, data, workspace, args.files_per_trigger, options, line.show))
        line.end()
    rows = [read_rows(run.output, KEYS) for run in runs]
    found = list(islice(differences(*rows), 10))
    _print_table(runs, [len(r) for r in rows], not found)
    for difference in found:
        print(f"  {difference}", file=sys.stderr)
    return 1 if found else 0


def _print_table(runs: list[Run], results: list[int], identical: bool) -> None:
    print(f"\n{'':12} {'rows in':>10} {'rows out':>10} {'seconds':>9} {'rows/s':>12} {'ratio':>7}")
    for run, count in zip(runs, results, strict=True):
        ratio = run.rate / runs[0].rate
        print(f"{run.name:12} {run.rows:>10,} {count:>10,} {run.seconds:>9.1f} {run.rate:>12,.0f} {ratio:>6.1f}x")
    print("(seconds in the stream, from its start to its last commit; the JVM's start is not in them)")
    print(f"Results identical row by row: {'yes' if identical else 'NO'}")


class _Line:
    """A line rewritten in place on a terminal; elsewhere a new line every few seconds' worth of changes."""

    EVERY = 10  # changes between two lines where there is no terminal

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._last = ""
        self._changes = 0

    def show(self, text: str) -> None:
        if text == self._last:
            return
        self._last = text
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
