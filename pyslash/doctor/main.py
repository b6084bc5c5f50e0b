"""The command: run all checks, print them, exit 1 if one failed."""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path

from pyslash.conf import Conf, parse_bytes
from pyslash.doctor import fabric, memory, software
from pyslash.doctor.finding import Finding, Status
from pyslash.errors import ConfigError

_ARENA = "spark.slash.arena.size"
_MARKS = {Status.OK: "ok", Status.ABSENT: "--", Status.WARNING: "WARN", Status.FAILURE: "FAIL"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rdma", action="store_true", help="fail if RDMA does not work on this machine")
    parser.add_argument(
        "--properties-file",
        type=_properties,
        default={},
        metavar="FILE",
        help="a properties file for spark-submit: check that containers are large enough for their executors",
    )
    parser.add_argument(
        "--arena-size",
        type=_size,
        metavar="SIZE",
        help="spark.slash.arena.size of the cluster (default: that of the file, or pyslash's default)",
    )


def main(args: argparse.Namespace) -> int:
    """0 if nothing failed; warnings and what is merely absent do not count."""
    properties = dict(args.properties_file)
    if args.arena_size is not None:
        properties[_ARENA] = args.arena_size
    findings = diagnose(properties, args.rdma)
    failed = [finding for finding in findings if finding.status is Status.FAILURE]
    if args.json:
        print(json.dumps({"ok": not failed, "findings": [finding.to_record() for finding in findings]}, indent=2))
    else:
        for finding in findings:
            print(f"{_MARKS[finding.status]:>5}  {finding.check:16} {finding.found}")
            if finding.fix:
                print(f"{'':25}-> {finding.fix}")
    return 1 if failed else 0


def diagnose(properties: dict[str, str], rdma_required: bool = False) -> list[Finding]:
    """Every check, in order. `properties`: Spark's settings, as far as they are known, each of which parses."""
    findings = [check() for check in software.CHECKS]
    arena_bytes = Conf.read(properties.get).arena_bytes
    findings += [memory.arena(arena_bytes), memory.container(properties.get)]
    rdma = list(fabric.rdma(rdma_required))
    has_device = any(finding.check == "rdma device" and finding.status is Status.OK for finding in rdma)
    findings += [memory.locked_memory(arena_bytes, has_device), *rdma, fabric.verdict(rdma)]
    wanted = os.environ.get("PYSLASH_RDMA_DEVICE")
    if wanted:
        findings.append(Finding("environment", Status.OK, f"PYSLASH_RDMA_DEVICE={wanted}"))
    return findings


def _size(text: str) -> str:
    parse_bytes(text)
    return text


def _properties(path: str) -> dict[str, str]:
    """The settings of a properties file of Spark's: a name, blanks or `=`, a value."""
    found = {}
    try:
        lines = Path(path).read_text().splitlines()
        for line in lines:
            if (text := line.strip()) and not text.startswith("#"):
                name, _, value = re.sub(r"[\s=]+", " ", text, count=1).partition(" ")
                found[name] = value
        Conf.read(found.get)
    except (OSError, ConfigError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return found
