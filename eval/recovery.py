"""How long a loss is felt: a stream with much state, whose executor is killed, and whose driver is started again.

    python -m eval.recovery [--groups 1000000] [--repeats 5] [--only checkpoint,standby,spark] [--conf KEY=VALUE]

A recovery is the time from `kill -9` of one of two executors to the next result; a restart is a new application on the
checkpoint. Spark alone, with the same rows and no aggregation, is measured beside it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from eval import machine
from eval.bars import Bar
from eval.conf import add_conf
from eval.loss import OPEN_WINDOWS, PARTS, Setting, lose_executors, restart

ROOT = Path(__file__).resolve().parents[1]
# What survives where; the driver is started again on the checkpoint.
KINDS = {
    "checkpoint": {"spark.slash.durability": "checkpoint"},
    "standby": {"spark.slash.durability": "both"},
    "spark": {},
}
LOSS_BARS = {"checkpoint": 30.0, "standby": 10.0}
RESTART_BAR = 5.0
RESTARTS = 3

Figures = list[dict[str, Any]]


def sent_by(target: Any, *arguments: Any) -> Iterator[Any]:
    """What `target` sends from a process of its own, as it comes; it ends with that process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *arguments))
    process.start()
    theirs.close()
    try:
        with suppress(EOFError):
            while True:
                yield ours.recv()
    finally:
        process.join()


def measure(kind: str, groups: int, repeats: int, conf: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(title, figures) of each batch that was measured."""
    with tempfile.TemporaryDirectory(prefix="recovery-") as text:
        setting = Setting(Path(text), groups, {**KINDS[kind], **conf}, stateless=kind == "spark")
        (setting.folder / "rows").mkdir()
        fed = None
        restarts = min(repeats, RESTARTS) if kind == "checkpoint" else 0
        for turn in range(1 + restarts):
            sent = sent_by(restart, setting, *fed) if fed else sent_by(lose_executors, setting, repeats)
            fed = None
            for what, figures in sent:
                if what == "fed":
                    fed = figures
                else:
                    yield f"{kind}: {what}", figures
            if fed is None:
                raise RuntimeError(f"application {turn + 1} of {kind} ended before its time; its log is above")


def median(figures: Figures, name: str) -> float | None:
    """Of a figure, in seconds; None if it was not measured."""
    values = [one[name] for one in figures if one.get(name) is not None]
    return statistics.median(values) if values else None


def median_of_parts(figures: Figures) -> dict[str, float]:
    """Seconds of each part of an epoch, and of what is none of them."""
    parts = [{**one["parts"], "other": one["seconds"] - sum(one["parts"].values())} for one in figures]
    return {name: statistics.median(part.get(name, 0.0) for part in parts) for name in (*PARTS, "other")}


def table(found: dict[str, Figures]) -> str:
    """Medians, in seconds, one line a title."""
    names = ("result", "at most", *PARTS, "other", "replaced", "session")
    lines = [f"{'seconds, medians':34}" + "".join(f"{name:>11}" for name in names)]
    for title, figures in found.items():
        parts = median_of_parts(figures)
        cells = [median(figures, "seconds"), max(one["seconds"] for one in figures), *parts.values()]
        cells += [median(figures, "replaced_seconds"), median(figures, "session_seconds")]
        lines.append(f"{title:34}" + "".join(f"{'-' if one is None else f'{one:.2f}':>11}" for one in cells))
    return "\n".join(lines)


def bars(found: dict[str, Figures]) -> list[Bar]:
    """Medians against what they have to be."""
    verdicts = []
    for kind, most in LOSS_BARS.items():
        if figures := found.get(f"{kind}: executor lost"):
            what = f"executor killed to the next result, {kind}"
            verdicts.append(_at_most(what, median(figures, "seconds"), most))
    if figures := found.get("checkpoint: driver started again"):
        restored = statistics.median(one["parts"]["agents"] + one["parts"]["restore"] for one in figures)
        verdicts.append(_at_most("driver started again, state restored", restored, RESTART_BAR))
    return verdicts


def _at_most(what: str, seconds: float | None, most: float) -> Bar:
    figure, met = ("-", None) if seconds is None else (f"{seconds:.2f} s", seconds <= most)
    return Bar(what, figure, f"<= {most:g} s", met)


def main() -> None:
    """Measure and print; JSON lines beside."""
    parser = argparse.ArgumentParser(prog="python -m eval.recovery", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    add_conf(parser)
    parser.add_argument("--out", type=Path, help="JSON lines (default: a new file in eval/results)")
    given = parser.parse_args()
    out = given.out or ROOT / "eval" / "results" / f"recovery-{datetime.now():%Y%m%d-%H%M%S}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    found: dict[str, Figures] = {}
    for kind in given.only.split(","):
        for title, figures in measure(kind, given.groups, given.repeats, given.conf):
            load = os.getloadavg()[0]
            print(f"{title:34} {figures['seconds']:8.2f} s, load {load:.1f}", flush=True)
            found.setdefault(title, []).append(figures)
            record = {"title": title, "groups": given.groups, **figures, "conf": given.conf, "load": load}
            with out.open("a") as file:
                file.write(json.dumps({**record, "machine": machine.describe()}) + "\n")
    print(f"\n{given.groups:,} groups of state in {OPEN_WINDOWS} open windows, two executors on one machine; {out}\n")
    print(table(found))
    print("replaced: from the kill until Spark has two executors again; session: Spark's start before the query's")
    print("\nbars", *bars(found), sep="\n")


if __name__ == "__main__":
    main()
