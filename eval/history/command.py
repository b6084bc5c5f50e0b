"""`python -m eval history`: what a backfill and reads of live state cost, and what a query that runs feels of them."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from datetime import datetime
from pathlib import Path

from eval import machine
from eval.conf import add_conf
from eval.history import live_state, lost_executor, rows_before
from eval.history.setting import Setting
from eval.records import note

ROOT = Path(__file__).resolve().parents[2]
PARTS = {"backfill": rows_before, "state": live_state, "lost-executor": lost_executor}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--rows", type=int, default=100_000_000, help="of the history")
    parser.add_argument("--keys", type=int, default=100_000, help="of the history and of the stream")
    parser.add_argument("--groups", type=int, default=10_000_000, help="of the state that is read")
    parser.add_argument("--seconds", type=float, default=60.0, help="of micro-batches before, and of reads")
    parser.add_argument("--nice", type=int, default=19, help="of the application beside the query's; 0: as the query's")
    parser.add_argument("--same-application", action="store_true", help="backfill in the query's own application")
    parser.add_argument("--only", choices=PARTS, help="one of the parts")
    parser.add_argument("--driver-memory", type=int, default=4, metavar="GIB", help="heap of each JVM")
    add_conf(parser, "of both applications")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "eval", help="for a folder that goes at the end")
    parser.add_argument("--out", type=Path, help="JSON lines (default: a new file in eval/results)")


def main(args: argparse.Namespace) -> int:
    """Measure and print; 1 if rows differ."""
    args.cache.mkdir(parents=True, exist_ok=True)
    out = args.out or ROOT / "eval" / "results" / f"history-{datetime.now():%Y%m%d-%H%M%S}.jsonl"
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    right = True
    bars = []
    for part in [args.only] if args.only else PARTS:
        with tempfile.TemporaryDirectory(prefix=f"history-{part}-", dir=args.cache) as folder:
            found = PARTS[part].measure(_setting(args, Path(folder)))
        judged = PARTS[part].bars(found)
        verdicts = [{"bar": bar.what, "figure": bar.figure, "wanted": bar.wanted, "met": bar.met} for bar in judged]
        load = os.getloadavg()[0]
        note(out, "", history=part, **found, bars=verdicts, conf=args.conf, load=load, machine=machine.describe())
        print(PARTS[part].table(found), flush=True)
        bars += judged
        right = right and found["correct"]
    print("\nbars", *bars, sep="\n")
    print(out)
    return int(not right)


def _setting(args: argparse.Namespace, folder: Path) -> Setting:
    return Setting(
        folder.resolve(),
        rows=args.rows,
        keys=args.keys,
        groups=args.groups,
        seconds=args.seconds,
        nice=args.nice,
        same_application=args.same_application,
        conf={"spark.driver.memory": f"{args.driver_memory}g", **args.conf},
    )
