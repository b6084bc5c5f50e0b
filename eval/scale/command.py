"""`python -m eval scale`: agents alone, with blocks that are made up, by the number of executors.

Each executor's agent is a process in a network namespace of its own. Update tasks are not run: blocks as they would
have left them are written. Merge tasks are threads that ask as a task's JVM does. One machine cannot show the seconds
of many, so what is counted is work (CPU seconds, requests, bytes) and span: executors merge in turn, each with the
machine to itself, and the longest of these is what no number of machines makes shorter.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval import machine
from eval.scale.executors import Executor, executors, new_secret
from eval.scale.gil import Sampler, lock_offset
from eval.scale.merge import Gathered, Heads, Tasks, cuts
from eval.scale.network import network


@dataclass(frozen=True)
class Row:
    """An epoch on `executors` executors: medians of epochs, and of agents unless it says otherwise.

    `requests` are those that an agent served to other agents, `calls` those that an executor's tasks made of their own
    agent. `fold_cpu_ms` and `fold_ms` are an agent's CPU for its fold, and the longest fold; both 0 without. CPU is of
    the merge alone, with the part of it that the kernel took. `gil_ms` is how long an agent held its
    interpreter lock while its executor merged, and `gil_share` that as a part of the seconds of that merge; None where
    it cannot be seen. `chain_ms` is the longest merge of an executor that had the machine to itself.
    """

    executors: int
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--executors", type=int, nargs="+", default=[2, 4, 8, 16], metavar="N")
    parser.add_argument("--blocks", type=int, default=16, help="of an executor and epoch: its update tasks")
    parser.add_argument("--fold", action=argparse.BooleanOptionalAction, default=True, help="an agent's blocks first")
    parser.add_argument("--tasks", type=int, default=2, help="merge tasks of an executor")
    parser.add_argument("--keys", type=int, default=100_000, help="of all rows: each block has all of them")
    parser.add_argument("--epochs", type=int, default=3, help="whose median counts, after one that does not")
    parser.add_argument("--gbit", type=float, default=0.0, help="of each link (default: as fast as it goes)")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="of each packet that leaves a host")
    parser.add_argument("--out", type=Path, help="JSON: the rows, the command and the machine")


def main(args: argparse.Namespace) -> int:
    """Prints the table."""
    said: list[str] = []
    with suppress(LookupError):  # said with each merge
        lock_offset()  # while this is the only thread
    rows = [measure(count, args, said) for count in args.executors]
    for lack in dict.fromkeys(said):
        print(f"scale: NOT AS WANTED: {lack}", file=sys.stderr)
    print(table(rows))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(_record(args, rows, list(dict.fromkeys(said))), indent=1) + "\n")
    return 0


def measure(count: int, args: argparse.Namespace, said: list[str]) -> Row:
    """The figures of so many executors; what could not be made as wanted is added to `said`."""
    secret = new_secret()
    with ExitStack() as stack:
        net = stack.enter_context(network(count, args.gbit, args.delay_ms))
        said += net.lacks
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ps-"))
        members = stack.enter_context(executors(net.hosts, secret, Path(folder) / "r", args.blocks, args.keys))
        tasks = [Tasks(member, secret, args.tasks) for member in members]
        for one in tasks:
            stack.callback(one.close)
        epochs = [_epoch(members, tasks, args, number, said) for number in range(args.epochs + 1)]
    return Row(count, **{name: _median([epoch[name] for epoch in epochs[1:]]) for name in epochs[0]})


def _median(figures: list[float | None]) -> Any:
    """None if any is missing."""
    known = [figure for figure in figures if figure is not None]
    return statistics.median(known) if len(known) == len(figures) else None


def _epoch(
    members: list[Executor], tasks: list[Tasks], args: argparse.Namespace, number: int, said: list[str]
) -> dict[str, Any]:
    blocks = [member.write(number, args.blocks, args.keys) for member in members]
    before = _cpu(members)
    fold_seconds = [0.0]
    if args.fold:
        folds = [member.fold(number, of_member) for member, of_member in zip(members, blocks, strict=True)]
        blocks, fold_seconds = [folded for folded, _ in folds], [seconds for _, seconds in folds]
    fold_cpu = _differences(before, _cpu(members))
    before = _cpu(members)
    heads: Heads = [
        (member.agent, member.commit(number, of_member)) for member, of_member in zip(members, blocks, strict=True)
    ]
    commit_cpu = _differences(before, _cpu(members))
    ranges = cuts(len(members) * args.tasks)
    mine = [ranges[index * args.tasks : (index + 1) * args.tasks] for index in range(len(members))]
    served = [_counters(member) for member in members]
    before = _cpu(members)
    merges = [
        _alone(member, one, heads, some, number == 0, said)
        for member, one, some in zip(members, tasks, mine, strict=True)
    ]
    cpu = _differences(before, _cpu(members))
    now = [_counters(member) for member in members]
    for member in members:
        member.free()
    requests = [
        after.get("reads served", 0) - was.get("reads served", 0) for was, after in zip(served, now, strict=True)
    ]
    gathered = [gathered for _, _, gathered in merges]
    gil = [(share * seconds * 1e3, share) for seconds, share, _ in merges if share is not None]
    return {
        "calls": statistics.median(sum(one.calls for one in some) for some in gathered),
        "requests": statistics.median(requests),
        "blocks": statistics.median(sum(one.blocks for one in some) for some in gathered),
        "megabytes": statistics.median(sum(one.bytes for one in some) * 1e-6 for some in gathered),
        "agent_cpu_ms": statistics.median(cpu),
        "most_agent_cpu_ms": max(cpu),
        "fold_cpu_ms": statistics.median(fold_cpu),
        "fold_ms": max(fold_seconds) * 1e3,
        "commit_cpu_ms": statistics.median(commit_cpu),
        "gil_ms": statistics.median(ms for ms, _ in gil) if gil else None,
        "gil_share": statistics.median(share for _, share in gil) if gil else None,
        "chain_ms": max(seconds for seconds, _, _ in merges) * 1e3,
    }


def _alone(
    member: Executor, tasks: Tasks, heads: Heads, ranges: list[tuple[int, int]], check: bool, said: list[str]
) -> tuple[float, float | None, list[Gathered]]:
    """One executor's merge: its seconds, the share of them that its agent held its interpreter lock, and what came."""
    try:
        sampler = Sampler([member.agent.pid])
    except (LookupError, OSError) as error:
        said.append(f"no time of the interpreter lock: {error}")
        gathered, seconds = tasks.merge(heads, ranges, check)
        return seconds, None, gathered
    sampler.start()
    try:
        gathered, seconds = tasks.merge(heads, ranges, check)
    finally:
        share = sampler.stop()[member.agent.pid]
    return seconds, share, gathered


def table(rows: list[Row]) -> str:
    """The rows for a page."""
    columns: list[tuple[str, Callable[[Row], str]]] = [
        ("executors", lambda row: str(row.executors)),
        ("calls of an executor's tasks", lambda row: f"{row.calls:,.0f}"),
        ("requests that an agent serves", lambda row: f"{row.requests:,.0f}"),
        ("blocks read", lambda row: f"{row.blocks:,.0f}"),
        ("MB read", lambda row: f"{row.megabytes:,.1f}"),
        ("CPU ms of an agent", lambda row: f"{row.agent_cpu_ms:,.1f}"),
        ("of the busiest", lambda row: f"{row.most_agent_cpu_ms:,.1f}"),
        ("of its fold", lambda row: f"{row.fold_cpu_ms:,.1f}"),
        ("of a commit", lambda row: f"{row.commit_cpu_ms:,.1f}"),
        ("ms of the GIL", lambda row: "-" if row.gil_ms is None else f"{row.gil_ms:,.1f}"),
        ("of the merge's time", lambda row: "-" if row.gil_share is None else f"{row.gil_share:.0%}"),
        ("longest fold, ms", lambda row: f"{row.fold_ms:,.1f}"),
        ("longest merge, ms", lambda row: f"{row.chain_ms:,.1f}"),
    ]
    lines = [
        [name for name, _ in columns],
        ["---:"] * len(columns),
        *([show(row) for _, show in columns] for row in rows),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _record(args: argparse.Namespace, rows: list[Row], said: list[str]) -> dict[str, Any]:
    return {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "eval", *sys.argv[1:]]),
        "machine": machine.describe(),
        "not as wanted": said,
        "rows": [asdict(row) for row in rows],
    }


def _cpu(members: list[Executor]) -> list[float]:
    return [member.cpu_seconds() for member in members]


def _differences(before: list[float], after: list[float]) -> list[float]:
    """In milliseconds."""
    return [(late - early) * 1e3 for early, late in zip(before, after, strict=True)]


def _counters(member: Executor) -> dict[str, int]:
    counters: dict[str, int] = member.client.stats()["counters"]
    return counters
