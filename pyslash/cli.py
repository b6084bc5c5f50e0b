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
    Command("conf", "pyslash.conf_page", "list every configuration key, as Markdown"),
    Command(
        "coverage", "pyslash.coverage", "list the queries and functions of this Spark that pyslash covers, as Markdown"
    ),
    Command("demo", "pyslash.demo.main", "run the same job on plain Spark and on pyslash, and compare time and rows"),
    Command("doctor", "pyslash.doctor.main", "check this machine, and say how to fix what is wrong"),
    Command("jar", "pyslash.jar", "print where this installation's jar is, for the class path of a History Server"),
    Command("state", "pyslash.state.main", "list, dump, verify or export the state in the checkpoint of a query"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand of `arguments` (default: `sys.argv[1:]`); returns its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="pyslash", description="Stateful PySpark streams without a shuffle and without a state store"
    )
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
