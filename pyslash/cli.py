"""The command `pyslash`: one table of subcommands."""

from __future__ import annotations

import argparse
import importlib
import os
import select
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from pyslash import __version__

# As a shell tells the ends by SIGPIPE and SIGINT.
_BROKEN_PIPE = 141
_INTERRUPTED = 130


@dataclass(frozen=True)
class Command:
    """A subcommand: `module` has `add_arguments(parser)` and `main(args) -> exit status`; imported when chosen."""

    name: str
    module: str
    help: str


COMMANDS = (
    Command("backfill", "pyslash.api.backfill_job", "hand the history of a job's stream to its query, which may run"),
    Command("conf", "pyslash.conf_page", "list every configuration key, as Markdown"),
    Command(
        "coverage",
        "pyslash.inspect.coverage",
        "list the queries and functions of this Spark that pyslash covers, as Markdown",
    ),
    Command("demo", "pyslash.demo.main", "run the same job on plain Spark and on pyslash, and compare time and rows"),
    Command("doctor", "pyslash.inspect.doctor.main", "check this machine, and say how to fix what is wrong"),
    Command("explain", "pyslash.api.explain_job", "say which of a job's queries pyslash covers, without starting them"),
    Command("jar", "pyslash.inspect.jar", "print where this installation's jar is, for `spark-submit --jars`"),
    Command(
        "state",
        "pyslash.inspect.state.main",
        "list, dump, verify, save, fork, compare or export the state in the checkpoint of a query",
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand of `arguments` (default: `sys.argv[1:]`); returns its exit status.

    Nothing is said where the reader of a pipe has seen enough (`pyslash state dump CHECKPOINT | head`), or Ctrl-C ends
    the command.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        args = _parse(arguments)
        status = int(args.run(args))
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        if not _has_lost_its_reader():
            raise
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED


def _has_lost_its_reader() -> bool:
    """Whether nobody reads standard output; what is left of it then goes nowhere, at Python's end too."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors alone
    if not poll.poll(0):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="pyslash", description="Stateful PySpark streams without a shuffle and without a state store"
    )
    parser.add_argument("--version", action="version", version=f"pyslash {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    chosen = arguments[0] if arguments else None
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.name, help=command.help)
        if command.name == chosen:
            module = importlib.import_module(command.module)
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.main)
    args = parser.parse_args(arguments)
    if args.command is None:
        parser.print_help(sys.stderr)
        parser.exit(2)
    return args
