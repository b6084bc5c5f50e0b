"""State as a table: the open windows of an epoch, merged from its block files and finished as a merge task does it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from math import isnan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyslash._native import Head, Merger, Plan, SessionMerger
from pyslash.errors import InvalidInputError
from pyslash.inspect.state import join_rows
from pyslash.inspect.state.nested import NestedColumns
from pyslash.inspect.state.unsafe_rows import numbered
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.emission import EVERY_END_US
from pyslash.plan.window import NO_WATERMARK_US, TimeWindow, windows_between
from pyslash.state.files.block_file import ALL_PREFIXES, StoredBlock, merge_stored
from pyslash.state.manifest import Manifest
from pyslash.state.sizes.key_text import text_of
from pyslash.state.stored import StoredState
from pyslash.units import Epoch

_BOUNDS = ("window_start", "window_end")


def rows(
    state: StoredState, epoch: Epoch | None, window: str | None, key: Sequence[str], side: str | None = None
) -> Iterator[pa.RecordBatch]:
    """The groups of an epoch's open windows, or of one window, under the names that the query gives its columns.

    Of a join: the rows that it keeps of one side.

    Args:
        state: the checkpoint.
        epoch: as of the end of which; None: of the newest.
        window: start of the only window wanted: ISO 8601 (UTC unless it says otherwise), or microseconds.
        key: the only values wanted of the first keys, as text; `null` for null.
        side: of a join, left or right.

    Raises:
        InvalidInputError: no such window or side, or a key that does not fit its type.
        CheckpointError, CorruptBlockError, StateLostError: as `StoredState.read`.
        ArithmeticOverflowError: a sum has left its type, and the query's rules make that an error.
    """
    manifest = state.manifest(epoch)
    blocks = state.blocks_of(manifest)
    if manifest.identity.join and (window is not None or key):
        raise InvalidInputError("the rows of a join have no window and no keys to choose by: name its --side alone")
    if manifest.identity.session and window is not None:
        raise InvalidInputError("sessions start at any time: --window names a fixed window by its start")
    start = None if window is None else _checked(manifest.identity.window, microseconds(window), manifest)
    names = schema(manifest, side).names
    for batch in merged(manifest, blocks, ALL_PREFIXES, start, side):
        yield _of_key(batch.rename_columns(names), key, manifest.identity)


def merged(
    manifest: Manifest,
    blocks: list[StoredBlock],
    prefixes: tuple[int, int],
    start: int | None = None,
    side: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """The groups of the open windows, or of the one that starts then, with the keys of a range of hash prefixes. Their
    columns are `fields`. What the watermark has ended by itself is not there, though its pane is kept for others.

    Of a join: as large a share of the rows that it keeps of one side.
    """
    _check_side(manifest, side)
    if manifest.identity.join:
        yield from join_rows.rows(manifest, blocks, side, prefixes)
        return
    names, plan, grid = columns(manifest.identity), Plan(manifest.plan), manifest.identity.window
    merger: Merger | SessionMerger
    if manifest.identity.session:
        panes = manifest.pane, manifest.pane + 1
        merger = SessionMerger(plan, manifest.pane, manifest.watermark_us, EVERY_END_US, *prefixes)
    else:
        held = {pane for block in blocks for pane, _, _ in Head(block.head).panes}
        wanted = windows_between(grid, held, manifest.watermark_us) if start is None else [start]
        if not wanted:
            return
        panes = wanted[0], wanted[-1] + grid.size_us
        merger = Merger(plan, wanted, *prefixes)
    ends_at, nested = _end_of(manifest.identity), NestedColumns(manifest.identity, len(_BOUNDS))
    for batch in merge_stored(merger, panes, prefixes, blocks):
        if ends_at is not None:
            is_open = pc.greater(batch.column(ends_at).view(pa.int64()), manifest.watermark_us)
            batch = batch.filter(pc.fill_null(is_open, True))  # what has no time is never late
        named = [field.with_name(name) for field, name in zip(batch.schema, names, strict=True)]
        yield pa.record_batch(nested.decoded(batch.columns), schema=pa.schema(nested.fields(named)))


def _end_of(plan: PlanIdentity) -> int | None:
    """Which column of what is `merged` says when a group ends; None: its window does, or nothing."""
    if plan.operator == "deduplication within the watermark":
        return len(columns(plan)) - 1
    if plan.session or not (plan.spec.moments or plan.spec.deduplicates):
        return None
    return next((at for at, key in enumerate(plan.keys, len(_BOUNDS)) if key.sql == plan.time), None)


def schema(manifest: Manifest, side: str | None = None) -> pa.Schema:
    """Of the batches that `rows` yields.

    Raises:
        InvalidInputError: the state is not groups, or the wanted side is none.
    """
    return told_apart(fields(manifest, side))


def fields(manifest: Manifest, side: str | None = None) -> list[pa.Field]:
    """The columns of what is `merged`: keys and aggregates are called as in the query, where names need not differ.

    Raises:
        InvalidInputError: as `schema`.
    """
    _check_side(manifest, side)
    if manifest.identity.join:
        return [*join_rows.schema(manifest, side)]
    names, found = columns(manifest.identity), pa.schema(Plan(manifest.plan).schema)
    named = [field.with_name(name) for field, name in zip(found, names, strict=True)]
    return NestedColumns(manifest.identity, len(_BOUNDS)).fields(named)


def told_apart(columns: Sequence[pa.Field]) -> pa.Schema:
    """Of these columns, each under a name of its own."""
    names = numbered([field.name for field in columns])
    return pa.schema([field.with_name(name) for field, name in zip(columns, names, strict=True)])


def columns(plan: PlanIdentity) -> list[str]:
    """Names of a dump's columns, if it is of groups.

    Raises:
        InvalidInputError: the state is of a processor.
    """
    if plan.operator == "transformWithState":
        raise InvalidInputError(
            "the state of a processor in Python is variables as the processor's tasks keep them: `keys` lists them"
        )
    return [*_BOUNDS, *(key.sql for key in plan.keys), *(one.sql for one in plan.aggregates)]


def time_of(us: int) -> str:
    """A time of microseconds since 1970, as a reader wants it; those of a year that Python does not know as they are.

    >>> time_of(1_500_000), time_of(NO_WATERMARK_US), time_of(1 << 60)
    ('1970-01-01 00:00:01.500000', '-', '1152921504606846976')
    """
    return "-" if us == NO_WATERMARK_US else text_of(us, "timestamp_ntz")


def microseconds(text: str) -> int:
    """A point in time, as `rows` takes it.

    >>> microseconds("1970-01-01T00:00:10"), microseconds("10000000")
    (10000000, 10000000)
    """
    if re.fullmatch("-?[0-9]+", text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(f"{text!r} is no time: write 2026-01-31T12:00:00, or microseconds since 1970") from None
    since = (time if time.tzinfo else time.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _check_side(manifest: Manifest, side: str | None) -> None:
    if side is not None and not manifest.identity.join:
        raise InvalidInputError(
            f"the state is of a {manifest.identity.operator}: only a join has a left and a right side"
        )


def _checked(grid: TimeWindow, start: int, manifest: Manifest) -> int:
    if (start - grid.start_offset_us) % grid.slide_us:
        raise InvalidInputError(
            f"no window of this query starts at {time_of(start)}: they start every {grid.slide_us} us"
        )
    if start + grid.size_us <= manifest.emitted_us:
        raise InvalidInputError(
            f"the window that starts at {time_of(start)} was emitted before epoch {manifest.epoch}: its state is gone. "
            "An earlier --epoch may still hold it"
        )
    return start


def _of_key(batch: pa.RecordBatch, key: Sequence[str], plan: PlanIdentity) -> pa.RecordBatch:
    if len(key) > len(plan.keys):
        raise InvalidInputError(
            f"{len(key)} values for a key of {len(plan.keys)}: {', '.join(k.sql for k in plan.keys)}"
        )
    for index, text in enumerate(key, 2):
        column = batch.column(index)
        if text == "null":
            batch = batch.filter(pc.is_null(column))
            continue
        value = _value(text, column.type, plan.keys[index - 2].sql)
        is_nan = pa.types.is_floating(value.type) and isnan(value.as_py())  # which Arrow has equal to none
        batch = batch.filter(pc.is_nan(column) if is_nan else pc.equal(column, value))
    return batch


def _value(text: str, kind: pa.DataType, name: str) -> Any:
    try:
        return pa.scalar(text).cast(kind)
    except pa.ArrowException as error:
        raise InvalidInputError(f"{text!r} is no value of the key {name} ({kind}): {error}") from None
