"""The command `pyslash`: one table of subcommands."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A subcommand: `module` has `add_arguments(parser)` and `main(args) -> exit status`; imported when chosen."""

    name: str
    module: str
    help: str


COMMANDS = (
    Command("coverage", "pyslash.coverage", "which stateful queries of this Spark run on pyslash, as Markdown"),
    Command("demo", "pyslash.demo.main", "the same job on plain Spark and on pyslash, timed and compared"),
    Command("doctor", "pyslash.doctor.main", "what this machine has and lacks for pyslash, and how to mend it"),
    Command("jar", "pyslash.jar", "where this installation's jar is, for a History Server's class path"),
    Command("state", "pyslash.state.main", "list, dump or verify the state in a query's checkpoint"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand of `arguments` (default: `sys.argv[1:]`); returns its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="pyslash", description="RDMA-accelerated state for PySpark streams")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chosen = arguments[0] if arguments else None
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.name, help=command.help)
        if command.name == chosen:
            module = importlib.import_module(command.module)
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.main)
    args = parser.parse_args(arguments)
    return int(args.run(args))
