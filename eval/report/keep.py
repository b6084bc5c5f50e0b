"""`python -m eval keep`: the results files that the figures of README and of docs are of, in the repository."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from eval.records import Record, Results

KEPT = Path(__file__).resolve().parents[1] / "results" / "README.jsonl"
# What has to be known of a session, so that somebody else can have it again.
WANTED = ("commit", "cpu", "pyspark")


class KeepError(Exception):
    """These results are none to be kept; the message says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("results", type=Path, nargs="+", help="JSON lines of a session each")
    parser.add_argument("--out", type=Path, default=KEPT, help="default: eval/results/README.jsonl")


def main(args: argparse.Namespace) -> int:
    """0 if the file was written."""
    if len(args.results) > 1 and args.out == KEPT:
        raise SystemExit(f"{KEPT.name} is of one session; --out names another file")
    records = []
    for path in args.results:
        try:
            records += kept(Results.load([path]).records)
        except KeepError as error:
            raise SystemExit(f"{path}: {error}") from None
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("".join(json.dumps(record) + "\n" for record in records))
    print(f"{len(records)} lines of session {', '.join(sorted({record['session'] for record in records}))}: {args.out}")
    return 0


def kept(records: list[Record]) -> list[Record]:
    """The session's lines; of each engine's conf, which is the same in all its runs, the first.

    Raises:
        KeepError: they are of several sessions, of files that no commit has, or do not say where they were measured.
    """
    sessions = {record.get("session") for record in records}
    if len(sessions) != 1 or None in sessions:
        raise KeepError(f"lines of {len(sessions)} sessions; wanted those of one")
    machine = next((record["machine"] for record in records if record.get("machine")), {})
    if missing := [name for name in WANTED if machine.get(name, "unknown") == "unknown"]:
        raise KeepError(f"does not say {', '.join(missing)}: measure again by `make eval` in a clone")
    if machine["commit"].endswith("+"):
        raise KeepError(f"measured with changes beyond commit {machine['commit'][:-1]}: commit them and measure again")
    seen = set()
    found = []
    for record in records:
        conf = (record.get("engine"), json.dumps(record.get("conf"), sort_keys=True))
        found.append({name: value for name, value in record.items() if name != "conf" or conf not in seen})
        seen.add(conf)
    return found
