"""`pyslash backfill CHECKPOINT NAME job.py`: history for the query of a job, which runs until it would start that.

What the job reads is the history: by its own arguments, or the files that `--history` names instead of its stream.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext

from pyslash.api import job_arguments
from pyslash.api.backfill import LATE, backfill
from pyslash.api.history_of import reading
from pyslash.driver.start.hook import QueryStart
from pyslash.driver.start.rehearsal import rehearse_until
from pyslash.errors import CheckpointError, InvalidInputError, SlashError
from pyslash.state.backfill import Backfill


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Run a job until it would start its query, read all that the query would read by then, and hand that to the "
        "query of the checkpoint, which may run. Exit status: 0 if the query has it, or takes it with its next rows."
    )
    parser.add_argument("--history", metavar="PATH", help="files to read instead of the stream that the job reads")
    parser.add_argument("--format", help="of these files (default: as the stream's own files are, or parquet)")
    parser.add_argument("--late", choices=LATE, default=LATE[0], help="what becomes of groups that come too late")
    parser.add_argument("--query", metavar="QUERY", help="the query of this name (default: the first of the job)")
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the query's checkpointLocation: path or URI")
    parser.add_argument("name", metavar="NAME", help="of the backfill: the same one is taken once")
    job_arguments.add(parser)


def main(args: argparse.Namespace) -> int:
    """Make the backfill; returns the exit status. An error of pyslash is one line on standard error."""
    job_arguments.submit(args)
    try:
        made = _made(args)
    except SlashError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2 if isinstance(error, CheckpointError | InvalidInputError) else 1
    print(f"{made.name}: {made.groups} groups, which the query takes with its next rows, once")
    return 0


def _made(args: argparse.Namespace) -> Backfill:
    def look(query: QueryStart) -> Backfill:
        output_mode = query.settings.output_mode.value
        return backfill(query.rows, args.checkpoint, args.name, late=args.late, output_mode=output_mode)

    with reading(args.history, args.format) if args.history is not None else nullcontext():
        return rehearse_until(args.job, args.arguments, args.query, look)
