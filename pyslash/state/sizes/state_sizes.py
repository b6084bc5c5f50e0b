"""How large the state of an operator is, by slices of event time, and which keys have the most of it.

It reads the files of one manifest, as every reader of state does, and asks neither the query nor its agents. The heads
of blocks tell the sizes of segments. Keys are found by reading segments twice: the first time each names the keys that
have the most in it, and the second time what all segments have of these keys is added up. So little is held in memory,
and a key that no segment has named has at most what the least named ones have, added up.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyslash.errors import CheckpointError
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.window import first_live_pane
from pyslash.state.files.block_file import Segment, StoredBlock, opened
from pyslash.state.manifest import Manifest
from pyslash.state.processor_blocks import panes_of_homes
from pyslash.state.sizes.key_text import KeyText
from pyslash.state.sizes.segment_columns import BYTES, ROWS, SegmentColumns, Sizes
from pyslash.state.stored import StoredState
from pyslash.units import AFTER_ALL_PANES, Epoch, Micros

Piece = tuple[Segment, Any]
"""A segment and its bytes."""
_PARTS = "parts"
_PREFIX_BITS = 32
_MOST_BITS = 12  # of a hash prefix, which cut the keys of a slice into segments


@dataclass(frozen=True)
class Limits:
    """For how many seconds segments are read, about, and how many bytes of files that cannot be mapped."""

    seconds: float
    fetched_bytes: int


@dataclass(frozen=True)
class HotKey:
    """A key: its values as text, and what was read of it: rows, bytes, and in how many parts these lie."""

    key: list[str]
    rows: int
    bytes: int
    parts: int


@dataclass(frozen=True)
class Slice:
    """What begins at a time in microseconds since 1970."""

    start_us: int
    bytes: int
    parts: int


@dataclass(frozen=True)
class StateSizes:
    """What an operator holds as of an epoch, in `bytes` and `parts`: a group has one in each block with rows of it.

    `slices` are the largest of `slice_count`, in order; `slices_of` says what they are, and is empty if there are none.
    `key_names` are the columns of keys, `rows_are` what is counted as their rows. What was read, all or what the limits
    allow, has `read_parts`, `read_bytes` and `read_rows`. `by_rows` and `by_bytes` are the keys that have the most of
    it; no other key has more than `other_rows` in what was read, or more than `other_bytes` in all.
    """

    operator: str
    epoch: Epoch
    watermark_us: int
    bytes: int
    parts: int
    slices_of: str
    slice_count: int
    slices: list[Slice]
    key_names: list[str]
    rows_are: str
    read_bytes: int
    read_parts: int
    read_rows: int
    by_rows: list[HotKey]
    other_rows: int
    by_bytes: list[HotKey]
    other_bytes: int


def sizes_of(state: StoredState, epoch: Epoch | None, top: int, limits: Limits) -> StateSizes:
    """The sizes of an operator's state as of an epoch, or of the newest, with at most `top` slices and keys.

    Raises:
        CheckpointError: there is no such epoch, or its files are gone.
        CorruptBlockError: a file is not what was written.
        StateLostError: the state is in memory alone, or a manifest is not what was written.
    """
    if epoch is None:
        try:
            return _sizes(state, state.manifest(), top, limits)
        except CheckpointError:
            pass  # a query that runs deletes files of the epoch before, once it has finished another one
    return _sizes(state, state.manifest(epoch), top, limits)


def _sizes(state: StoredState, manifest: Manifest, top: int, limits: Limits) -> StateSizes:
    plan = manifest.identity
    blocks, files_bytes = _blocks(state, manifest, limits)
    first, end = _live_panes(manifest)
    live = [piece for block in blocks for piece in block.segments if first <= piece[0].pane < end]
    columns, text = SegmentColumns(plan), KeyText(plan)
    found = _Search(columns, top)
    read, unread = found.name(_heaviest_first(live), limits.seconds / 2)
    keys = found.added_up(read)
    by_rows, next_rows = _top(keys, ROWS, top, text)
    by_bytes, next_bytes = _top(keys, BYTES, top, text)
    slices, slices_of = _slices(live), _slices_of(manifest)
    largest = sorted(slices, key=lambda one: (-one.bytes, one.start_us))[:top] if slices_of else []
    return StateSizes(
        operator=plan.operator,
        epoch=manifest.epoch,
        watermark_us=manifest.watermark_us,
        bytes=sum(one.bytes for one in slices) + files_bytes,
        parts=sum(one.parts for one in slices),
        slices_of=slices_of,
        slice_count=len(slices) if slices_of else 0,
        slices=sorted(largest, key=lambda one: one.start_us),
        key_names=text.names,
        rows_are=_rows_are(plan),
        read_bytes=sum(segment.length for segment, _ in read),
        read_parts=sum(segment.groups for segment, _ in read),
        read_rows=found.rows,
        by_rows=by_rows,
        other_rows=max(next_rows, int(found.unnamed[ROWS].max())),
        by_bytes=by_bytes,
        other_bytes=max(next_bytes, int((found.unnamed[BYTES] + _weights(unread)).max())) + files_bytes,
    )


class _Search:
    """The keys that segments name. `unnamed` has, of each range of hash prefixes, the most that any other key has."""

    def __init__(self, columns: SegmentColumns, top: int) -> None:
        self.rows = 0
        self.unnamed = {by: np.zeros(1 << _MOST_BITS, np.int64) for by in (ROWS, BYTES)}
        self._columns = columns
        self._top = top
        self._named: list[pa.Table] = []

    def name(self, pieces: list[Piece], seconds: float) -> tuple[list[Piece], list[Piece]]:
        """Have segments name keys until the time is up; those that have, and the others."""
        deadline = time.monotonic() + seconds
        for at, (segment, data) in enumerate(pieces):
            if time.monotonic() > deadline:
                return pieces[:at], pieces[at:]
            table = self._columns.table(segment, data)
            self.rows += pc.sum(table.column(ROWS)).as_py() or 0
            for by, others in self.unnamed.items():
                values = table.column(by).to_numpy()
                cut = max(0, len(values) - self._top)
                order = np.argpartition(values, cut) if cut else np.arange(len(values))
                self._named.append(table.take(order[cut:]).select(self._columns.key_names))
                others[_ranges(segment)] += values[order[cut]] if cut else 0
        return pieces, []

    def added_up(self, pieces: list[Piece]) -> pa.Table:
        """What these segments have of each key that has been named: rows, bytes and parts behind its values.

        Of keys of several columns there may be others, which have a named value in each.
        """
        names = self._columns.key_names
        wanted = pa.concat_tables(self._named) if self._named else None
        values = {} if wanted is None else {name: wanted.column(name).unique() for name in names}
        parts = [self._columns.nothing]
        for segment, data in pieces:
            table = self._columns.table(segment, data)
            for name, known in values.items():
                table = table.filter(pc.is_in(table.column(name), known))
            parts.append(table)
        sums = [(ROWS, "sum"), (BYTES, "sum"), ([], "count_all")]
        found = pa.concat_tables(parts).group_by(names, use_threads=False).aggregate(sums)
        found = found.select([*names, f"{ROWS}_sum", f"{BYTES}_sum", "count_all"])
        found = found.rename_columns([*names, ROWS, BYTES, _PARTS])
        return found.filter(pc.greater(found.column(_PARTS), 0))  # without keys nothing has a sum, too


def _blocks(state: StoredState, manifest: Manifest, limits: Limits) -> tuple[list[StoredBlock], int]:
    """Those of files that can be mapped, or fetched within the limits; and the bytes of the other files."""
    state.check_files(manifest)
    room = limits.fetched_bytes
    found, left = list[StoredBlock](), 0
    for file in sorted(manifest.files, key=lambda file: file.bytes):
        if not state.blocks.is_local:
            if file.bytes > room:
                left += file.bytes
                continue
            room -= file.bytes
        found += opened(state.blocks.mapped(file), file.name)
    return found, left


def _live_panes(manifest: Manifest) -> tuple[int, int]:
    """First and end of the panes that the query may yet need."""
    plan = manifest.identity
    if plan.operator == "transformWithState":
        return panes_of_homes(manifest.pane)
    if plan.session:
        return manifest.pane, manifest.pane + 1
    return first_live_pane(plan.window, Micros(manifest.watermark_us)), AFTER_ALL_PANES


def _heaviest_first(pieces: list[Piece]) -> list[Piece]:
    """Segments of the ranges of hash prefixes whose keys have the most bytes come first, all of a range together: if
    there is no time for the others, no key of theirs has more bytes than its range.
    """
    order = np.argsort(-_weights(pieces), kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return sorted(pieces, key=lambda piece: int(rank[_ranges(piece[0])].min()))


def _weights(pieces: Iterable[Piece]) -> Sizes:
    """Of each range of hash prefixes, the bytes of the segments that may have keys of it: no key of it has more."""
    found = np.zeros(1 << _MOST_BITS, np.int64)
    for segment, _ in pieces:
        found[_ranges(segment)] += segment.length
    return found


def _ranges(segment: Segment) -> slice:
    first = segment.prefix_lo >> _PREFIX_BITS - _MOST_BITS
    return slice(first, first + (1 << max(0, _MOST_BITS - segment.prefix_bits)))


def _slices(pieces: Iterable[Piece]) -> list[Slice]:
    sizes, parts = Counter[int](), Counter[int]()
    for segment, _ in pieces:
        sizes[segment.pane] += segment.length
        parts[segment.pane] += segment.groups
    return [Slice(start, size, parts[start]) for start, size in sizes.items()]


def _slices_of(manifest: Manifest) -> str:
    plan = manifest.identity
    if plan.session or plan.operator == "transformWithState" or plan.window.is_all_time:
        return ""
    others = {
        "join": "the watermark that drops rows",
        "deduplication within the watermark": "the watermark that drops keys",
    }
    return others.get(plan.operator, "event time")


def _rows_are(plan: PlanIdentity) -> str:
    if any(one.is_buffer for one in plan.aggregates):
        return "buffers"  # of Spark's own code, each of many rows
    counts = any(one.function == "count" and not one.inputs for one in plan.aggregates)
    if plan.is_adopted and plan.operator == "aggregation" and not counts:
        return "rows, as far as plain Spark had counted them"
    return {"join": "rows kept", "transformWithState": "changes kept"}.get(plan.operator, "rows")


def _top(keys: pa.Table, by: str, top: int, text: KeyText) -> tuple[list[HotKey], int]:
    """The keys that have the most, and how much the next one has."""
    other = BYTES if by == ROWS else ROWS
    order = pc.select_k_unstable(keys, top + 1, [(by, "descending"), (other, "descending")])
    found = keys.take(order).to_pylist()
    largest = [
        HotKey(text.shown([row[name] for name in keys.column_names[:-3]]), row[ROWS], row[BYTES], row[_PARTS])
        for row in found[:top]
    ]
    return largest, max((row[by] for row in found[top:]), default=0)
