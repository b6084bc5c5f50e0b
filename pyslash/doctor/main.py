"""The command: run all checks, print them, exit 1 if one failed."""

from __future__ import annotations

import argparse
import json
import os

from pyslash.conf import KEYS, parse_bytes
from pyslash.doctor import fabric, memory, software
from pyslash.doctor.finding import Finding, Status

_MARKS = {Status.OK: "ok", Status.ABSENT: "--", Status.WARNING: "WARN", Status.FAILURE: "FAIL"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--rdma", action="store_true", help="a machine without working RDMA has failed")
    parser.add_argument(
        "--arena-size",
        type=parse_bytes,
        default=parse_bytes(KEYS["spark.slash.arena.size"].default),
        metavar="SIZE",
        help="spark.slash.arena.size as the cluster has it (default: pyslash's)",
    )


def main(args: argparse.Namespace) -> int:
    """0 if nothing failed; warnings and what is merely absent do not count."""
    findings = diagnose(args.arena_size, args.rdma)
    failed = [finding for finding in findings if finding.status is Status.FAILURE]
    if args.json:
        print(json.dumps({"ok": not failed, "findings": [finding.to_record() for finding in findings]}, indent=2))
    else:
        for finding in findings:
            print(f"{_MARKS[finding.status]:>5}  {finding.check:16} {finding.found}")
            if finding.fix:
                print(f"{'':25}-> {finding.fix}")
    return 1 if failed else 0


def diagnose(arena_bytes: int, rdma_required: bool = False) -> list[Finding]:
    """Every check, in order."""
    findings = [check() for check in software.CHECKS]
    findings.append(memory.arena(arena_bytes))
    rdma = list(fabric.rdma(rdma_required))
    has_device = any(finding.check == "rdma device" and finding.status is Status.OK for finding in rdma)
    findings += [memory.locked_memory(arena_bytes, has_device), *rdma, fabric.verdict(rdma)]
    wanted = os.environ.get("PYSLASH_RDMA_DEVICE")
    if wanted:
        findings.append(Finding("environment", Status.OK, f"PYSLASH_RDMA_DEVICE={wanted}"))
    return findings
