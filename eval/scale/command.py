"""`python -m eval scale`: agents alone, with blocks that are made up, by the number of executors.

Each executor's agent is a process in a network namespace of its own. Update and merge tasks are threads, without Spark:
they write blocks, and ask agents, as a task's JVM does. One machine cannot show the seconds of many, so what is counted
is work (CPU seconds, requests, bytes) and span: executors work in turn, each with the machine to itself, and the
longest of these is what no number of machines makes shorter.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import count as count_from
from pathlib import Path
from typing import Any

from eval import machine
from eval.scale.epoch import Chain, Laboratory, longest
from eval.scale.executors import executors, new_secret
from eval.scale.gil import lock_offset
from eval.scale.load import EVEN, SKEWS, Load
from eval.scale.merge import Tasks
from eval.scale.network import network

ROWS_A_KEY = 4
"""Of a task's rows, where rows are skewed and their number is not given."""


@dataclass(frozen=True)
class Row:
    """An epoch on `executors` executors: medians of epochs, and of agents unless it says otherwise.

    `skew` says how `rows` are spread (`Load`); `rows` is 0 if each block has each key once.

    `requests` are those that an agent served to other agents, `calls` those that an executor's tasks made of their own
    agent. `fold_cpu_ms` and `fold_ms` are an agent's CPU for its fold, and the longest fold; both 0 without. CPU is of
    the merge alone, with the part of it that the kernel took. `gil_ms` is how long an agent held its
    interpreter lock while its executor merged, and `gil_share` that as a part of the seconds of that merge; None where
    it cannot be seen. `chain_ms` is the longest gathering of an executor that had the machine to itself.

    The last ones are CPU, so that a busy machine hardly changes them, and add up to `span_ms`, the longest chain: that
    of the driver's calls and heads, of the slowest update task, of the busiest agent (fold, commit and gathering, as if
    its threads followed one another), and of the slowest merge task.
    """

    executors: int
    skew: str
    rows: int
    calls: float
    requests: float
    blocks: float
    megabytes: float
    agent_cpu_ms: float
    most_agent_cpu_ms: float
    fold_cpu_ms: float
    fold_ms: float
    commit_cpu_ms: float
    gil_ms: float | None
    gil_share: float | None
    chain_ms: float
    driver_ms: float
    update_ms: float
    busiest_agent_ms: float
    merge_ms: float
    span_ms: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--executors", type=int, nargs="+", default=[2, 4, 8, 16], metavar="N")
    parser.add_argument("--blocks", type=int, default=16, help="of an executor and epoch: its update tasks")
    parser.add_argument("--fold", action=argparse.BooleanOptionalAction, default=True, help="an agent's blocks first")
    parser.add_argument("--tasks", type=int, default=2, help="merge tasks of an executor")
    parser.add_argument("--keys", type=int, default=100_000, help="of all rows: each block has all of them")
    parser.add_argument(
        "--rows", type=int, default=0, help="of an executor, of random keys (default: each key a block)"
    )
    parser.add_argument(
        "--skew", nargs="+", choices=SKEWS[1:], default=[], help="half of the rows, beside an even load"
    )
    parser.add_argument("--epochs", type=int, default=3, help="whose median counts, after one that does not")
    add_common(parser)


def add_common(parser: argparse.ArgumentParser) -> None:
    """Options of every laboratory: its links, and where its figures go."""
    parser.add_argument("--gbit", type=float, default=0.0, help="of each link (default: as fast as it goes)")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="of each packet that leaves a host")
    parser.add_argument("--out", type=Path, help="JSON: the rows, the command and the machine")


def main(args: argparse.Namespace) -> int:
    """Prints the table."""
    said: list[str] = []
    with suppress(LookupError):  # said with each merge
        lock_offset()  # while this is the only thread
    each = args.rows or (ROWS_A_KEY * args.keys * args.blocks if args.skew else 0)
    loads = [Load(args.keys, args.blocks, each, skew) for skew in (EVEN, *args.skew)]
    rows = [row for count in args.executors for row in measure(count, loads, args, said)]
    for lack in dict.fromkeys(said):
        print(f"scale: NOT AS WANTED: {lack}", file=sys.stderr)
    print(table(rows, _WORK))
    print(f"\n{table(rows, _SPAN)}")
    keep(args.out, rows, said, load={name: getattr(args, name) for name in ("blocks", "fold", "tasks", "keys")})
    return 0


def measure(count: int, loads: list[Load], args: argparse.Namespace, said: list[str]) -> list[Row]:
    """The figures of so many executors, which take the loads in turn; `said` gets what is not as wanted."""
    secret = new_secret()
    with ExitStack() as stack:
        net = stack.enter_context(network(count, args.gbit, args.delay_ms))
        said += net.lacks
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ps-"))
        members = stack.enter_context(executors(net.hosts, secret, Path(folder) / "r", args.blocks, args.keys))
        tasks = [Tasks(member, secret, args.tasks) for member in members]
        for one in tasks:
            stack.callback(one.close)
        laboratory = Laboratory(members, tasks, args.tasks, args.fold, said)
        numbers = count_from(0)
        epochs = [[laboratory.epoch(next(numbers), load) for load in loads] for _ in range(args.epochs + 1)]
    return [_row(count, load, of_load) for load, of_load in zip(loads, zip(*epochs[1:], strict=True), strict=True)]


def _row(count: int, load: Load, epochs: Sequence[tuple[dict[str, Any], Chain]]) -> Row:
    figures = {name: _median([figures[name] for figures, _ in epochs]) for name in epochs[0][0]}
    return Row(count, load.skew, load.rows, **figures, **longest([chain for _, chain in epochs]))


def _median(figures: list[float | None]) -> Any:
    """None if any is missing."""
    known = [figure for figure in figures if figure is not None]
    return statistics.median(known) if len(known) == len(figures) else None


_Columns = list[tuple[str, str, str]]  # a heading, the field of a `Row`, how it is written
_OF_WHAT: _Columns = [("executors", "executors", ""), ("load", "skew", "")]
_WORK: _Columns = [
    *_OF_WHAT,
    ("calls of an executor's tasks", "calls", ",.0f"),
    ("requests that an agent serves", "requests", ",.0f"),
    ("blocks read", "blocks", ",.0f"),
    ("MB read", "megabytes", ",.1f"),
    ("CPU ms of an agent", "agent_cpu_ms", ",.1f"),
    ("of the busiest", "most_agent_cpu_ms", ",.1f"),
    ("of its fold", "fold_cpu_ms", ",.1f"),
    ("of a commit", "commit_cpu_ms", ",.1f"),
    ("ms of the GIL", "gil_ms", ",.1f"),
    ("of the merge's time", "gil_share", ".0%"),
    ("longest fold, ms", "fold_ms", ",.1f"),
    ("longest merge, ms", "chain_ms", ",.1f"),
]
_SPAN: _Columns = [
    *_OF_WHAT,
    ("driver, CPU ms", "driver_ms", ",.1f"),
    ("slowest update", "update_ms", ",.1f"),
    ("busiest agent", "busiest_agent_ms", ",.1f"),
    ("slowest merge task", "merge_ms", ",.1f"),
    ("longest chain", "span_ms", ",.1f"),
]


def table(rows: Sequence[object], columns: _Columns) -> str:
    """The rows for a page; a figure that is missing is a dash."""
    lines = [
        [heading for heading, _, _ in columns],
        ["---:"] * len(columns),
        *([_cell(getattr(row, name), form) for _, name, form in columns] for row in rows),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(figure: float | str | None, form: str) -> str:
    return "-" if figure is None else format(figure, form)


def keep(out: Path | None, rows: Sequence[Any], said: Sequence[str], **more: object) -> None:
    """Write the rows, which are dataclasses, and how they were measured; `said` is what was not as wanted."""
    if out is None:
        return
    record = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "eval", *sys.argv[1:]]),
        "machine": machine.describe(),
        "not as wanted": [*dict.fromkeys(said)],
        **more,
        "rows": [asdict(row) for row in rows],
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=1) + "\n")
