"""The command `pyslash state`. Exit status 0: done and sound; 1: damaged; 2: nothing to look at."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from itertools import chain
from typing import BinaryIO, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from pyslash._native import Head
from pyslash.errors import CheckpointError, InvalidInputError, SlashError
from pyslash.file_systems import reason_of
from pyslash.inspect.state import dump
from pyslash.inspect.state.cells import cells
from pyslash.inspect.state.join_rows import SIDES
from pyslash.inspect.state.verify import verify
from pyslash.plan.change.identity import PlanIdentity
from pyslash.state.backfill import Backfills
from pyslash.state.manifest import Manifest
from pyslash.state.savepoint import drop, fork, save, savepoints
from pyslash.state.sizes.key_text import printable
from pyslash.state.sizes.state_sizes import Limits, sizes_of
from pyslash.state.stored import StoredState
from pyslash.units import Epoch

_LIMITS = Limits(seconds=float("inf"), fetched_bytes=1 << 60)  # the process is the command's own
_RIGHT = "{:>{}}"
_LEFT = "{:<{}}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The commands and their options."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = commands.add_parser("list", help="epochs, and the files and blocks of one")
    dumping = commands.add_parser("dump", help="the open windows of an epoch, or the rows of a join, as a table")
    sizing = commands.add_parser("keys", help="how large the state is, and the keys with the most rows and bytes")
    verifying = commands.add_parser("verify", help="check every checksum; exit status 1 if something is damaged")
    exporting = commands.add_parser("export", help="move a stopped query to plain Spark, with its state")
    saving = commands.add_parser("save", help="keep the state as of the last batch under a name: a savepoint")
    forking = commands.add_parser("fork", help="make a checkpoint of a savepoint, for another query")
    dropping = commands.add_parser("drop", help="delete a savepoint")
    comparing = commands.add_parser("diff-plan", help="would this job continue from this checkpoint?")
    for command in (listing, dumping, sizing, verifying, exporting, saving, forking, dropping, comparing):
        command.add_argument("checkpoint", metavar="CHECKPOINT", help="a query's checkpointLocation: path or URI")
    comparing.add_argument("--query", metavar="NAME", help="the query of this name (default: the first of the job)")
    comparing.add_argument("job", metavar="JOB", help="a Python program, which runs until it would start the query")
    comparing.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="of the job")
    for command in (saving, forking, dropping):
        command.add_argument("name", metavar="NAME", help="of the savepoint")
    forking.add_argument("--to", required=True, metavar="CHECKPOINT", help="the other query's checkpointLocation")
    for command in (listing, dumping, sizing):
        command.add_argument("--epoch", type=int, metavar="N", help="as of this epoch (default: the newest)")
    sizing.add_argument("--top", type=int, default=20, metavar="N", help="so many keys and slices (default: 20)")
    dumping.add_argument("--window", metavar="START", help="only the window that starts then: 2026-01-31T12:00:00")
    dumping.add_argument("--key", action="append", default=[], metavar="VALUE", help="only this key; repeat by column")
    dumping.add_argument("--side", choices=SIDES, help="of a join: the rows that it keeps of this side")
    dumping.add_argument("--format", choices=("table", "parquet"), default="table")
    dumping.add_argument("--out", metavar="FILE", help="write there (default: print; parquet needs it)")


def main(args: argparse.Namespace) -> int:
    """Run the chosen command; an error is one line on standard error."""
    try:
        return _ACTIONS[args.action](args)
    except SlashError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2 if isinstance(error, CheckpointError | InvalidInputError) else 1


def _list(args: argparse.Namespace) -> int:
    state = StoredState.at(args.checkpoint)
    epochs: list[Sequence[object]] = [("epoch", "run", "rows", "late", "watermark", "files", "bytes")]
    known = dict[Epoch, Manifest]()
    for one in state.every_manifest():
        if isinstance(one, SlashError):
            raise one
        known[one.epoch] = one
        size = sum(file.bytes for file in one.files)
        told = (one.run, one.rows, one.late_rows, dump.time_of(one.watermark_us), len(one.files), size)
        epochs.append((one.epoch, *told))
    manifest = state.manifest(args.epoch)
    blocks: list[Sequence[object]] = [("file", "kind", "block", "epoch", "groups", "bytes", "first pane", "last pane")]
    in_memory = bool(manifest.blocks) and not manifest.files
    for file, stored in [] if in_memory else state.read(manifest):
        for index, block in enumerate(stored):
            head = Head(block.head)
            written = "-" if head.epoch > 1 << 62 else head.epoch  # a compaction's result is of many epochs
            kind = "snapshot" if file.snapshot else "epoch"
            panes = [pane for pane, _, _ in head.panes]
            times = [_begin_of(pane, manifest.identity) for pane in (panes[0], panes[-1])] if panes else ["-", "-"]
            blocks.append((file.name, kind, index, written, head.groups, head.length, *times))
    _print(epochs)
    print(f"\nstate as of epoch {manifest.epoch}" + ": in memory alone (spark.slash.durability)" * in_memory)
    if not in_memory:
        _print(blocks)
    if saved := savepoints(args.checkpoint):
        print("\nsavepoints")
        of_saved = [(one.name, one.epoch, one.saved, one.files, one.bytes) for one in saved]
        _print([("name", "epoch", "saved", "files", "bytes"), *of_saved])
    if filled := list(_backfills(args.checkpoint, known)):
        print("\nbackfills")
        _print([("name", "made", "groups", "state"), *filled])
    return 0


def _begin_of(pane: int, plan: PlanIdentity) -> str:
    """When a pane begins; its number, where it is no slice of time."""
    if plan.session or plan.operator == "transformWithState":
        return str(pane)
    return "-" if plan.window.is_all_time else dump.time_of(pane)


def _backfills(checkpoint: str, known: dict[Epoch, Manifest]) -> Iterator[Sequence[object]]:
    backfills, newest = Backfills(checkpoint), known[max(known)]
    for one in backfills.all():
        taken, refusal = backfills.taken_in(one.name, newest, known.get), backfills.refusal(one.name)
        told = f"refused: {refusal}" if refusal is not None else "due" if taken is None else f"taken in epoch {taken}"
        yield one.name, one.made, one.groups, told


def _dump(args: argparse.Namespace) -> int:
    if args.format == "parquet" and args.out is None:
        raise InvalidInputError("--format parquet needs --out FILE")
    state = StoredState.at(args.checkpoint)
    manifest = state.manifest(args.epoch)
    schema = dump.schema(manifest, args.side)
    found = dump.rows(state, manifest.epoch, args.window, args.key, args.side)
    if args.format == "parquet":
        with _filled(args.out) as file, pq.ParquetWriter(file, schema) as writer:
            for batch in found:
                writer.write_batch(batch)
        return 0
    lines = chain([schema.names], (row for batch in found for row in _rows(batch)))
    if args.out is None:
        _print(lines)
    else:
        with _filled(args.out) as file, TextIOWrapper(file, "utf-8") as text:
            _print(lines, text)
    return 0


@contextmanager
def _filled(path: str) -> Iterator[BinaryIO]:
    """A file to write, which is empty if not all of it could be: a part could pass for the whole.

    Raises:
        InvalidInputError: it cannot be written.
    """
    try:
        with open(path, "wb") as file:
            try:
                yield file
            except BaseException:
                with suppress(OSError):
                    file.close()  # what it holds back is written then
                    os.truncate(path, 0)
                raise
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {reason_of(error)}") from None


def _keys(args: argparse.Namespace) -> int:
    if args.top < 1:
        raise InvalidInputError(f"--top {args.top}: write 1 or more")
    found = sizes_of(StoredState.at(args.checkpoint), args.epoch, args.top, _LIMITS)
    print(f"{found.operator} as of epoch {found.epoch}: {found.bytes} bytes in {found.parts} parts")
    if found.slices:
        print(f"\nslices of {found.slices_of} (the largest of {found.slice_count})")
        slices = [(dump.time_of(one.start_us), one.bytes, one.parts) for one in found.slices]
        _print([("begins", "bytes", "parts"), *slices])
    for what, keys, others in (
        (found.rows_are, found.by_rows, found.other_rows),
        ("bytes", found.by_bytes, found.other_bytes),
    ):
        print(f"\nkeys with the most {what} (any other has at most {others})")
        _print([(*found.key_names, "rows", "bytes", "parts"), *((*k.key, k.rows, k.bytes, k.parts) for k in keys)])
    return 0


def _verify(args: argparse.Namespace) -> int:
    is_damaged = False
    for number, state in enumerate(StoredState.of_operators(args.checkpoint)):
        verdict = verify(state)
        for problem in verdict.problems:
            print(f"DAMAGED  {problem}")
        for name in verdict.unnamed:
            print(f"unnamed  {name}: of a batch that failed or is under way")
        print(
            (f"operator {number}: " if number else "")
            + f"{verdict.manifests} manifests, {verdict.files} files, {verdict.blocks} blocks, {verdict.segments} "
            f"segments, {verdict.bytes} bytes: "
            + (f"{len(verdict.problems)} damaged" if verdict.problems else "all sound")
        )
        is_damaged = is_damaged or bool(verdict.problems)
    return 1 if is_damaged else 0


def _export(args: argparse.Namespace) -> int:
    from pyspark.sql import SparkSession

    from pyslash.migrate.export import export

    builder = SparkSession.builder.appName("pyslash state export").config("spark.ui.showConsoleProgress", "false")
    made = export(builder.getOrCreate(), args.checkpoint)
    print(
        f"as of batch {made.epoch}, {made.entries} groups or entries are in Spark's state store: plain Spark continues "
        f"the query. pyslash's files are kept in {made.kept}"
    )
    return 0


def _save(args: argparse.Namespace) -> int:
    saved = save(args.checkpoint, args.name)
    print(
        f"{saved.name} is the state as of batch {saved.epoch}: {saved.files} files ({saved.shared} shared with the "
        f"checkpoint), {saved.bytes} bytes"
    )
    return 0


def _fork(args: argparse.Namespace) -> int:
    forked = fork(args.checkpoint, args.name, args.to)
    print(
        f"{args.to} continues behind batch {forked.epoch} as query {forked.query}: {forked.files} files "
        f"({forked.shared} shared with the savepoint)"
    )
    return 0


def _drop(args: argparse.Namespace) -> int:
    drop(args.checkpoint, args.name)
    print(f"{args.name} is dropped")
    return 0


def _diff_plan(args: argparse.Namespace) -> int:
    from pyslash.inspect.state.diff_plan import diff_plan

    found = diff_plan(args.checkpoint, args.job, args.arguments, args.query)
    print("\n".join(found.lines))
    return found.status


_ACTIONS = {
    "list": _list,
    "dump": _dump,
    "keys": _keys,
    "verify": _verify,
    "export": _export,
    "save": _save,
    "fork": _fork,
    "drop": _drop,
    "diff-plan": _diff_plan,
}


def _rows(batch: pa.RecordBatch) -> Iterable[Sequence[object]]:
    return zip(*map(cells, batch), strict=True)


def _print(lines: Iterable[Sequence[object]], file: TextIO | None = None) -> None:
    """Columns as wide as their widest value, numbers to the right; a line each, whatever is in the values."""
    columns = list(zip(*lines, strict=True))
    numeric = [all(isinstance(value, int | float) for value in column[1:]) for column in columns]
    texts = [[printable(str(value)) for value in column] for column in columns]
    widths = [max(map(len, column)) for column in texts]
    for line in zip(*texts, strict=True):
        padded = [
            (_RIGHT if right else _LEFT).format(text, width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        print("  ".join(padded).rstrip(), file=file)
