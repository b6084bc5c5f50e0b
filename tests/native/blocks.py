"""Blocks from rows, and rows from blocks, as the update and merge tasks do it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from pyslash import _native
from tests.native.arrow import read_all, to_batch
from tests.native.model import Query, Row

QUERY = b"q" * 16
INCARNATION = b"i" * 16
PREFIXES = 1 << 32
LONG_AGO = -(1 << 60)
FOREVER = (LONG_AGO, 1 << 60)  # panes


@contextmanager
def new_arena(size: int = 64 << 20) -> Iterator[_native.Arena]:
    """An arena in a memfd of its own."""
    handle = os.memfd_create("pyslash-test")
    try:
        arena = _native.Arena.create(handle, size, INCARNATION)
    finally:
        os.close(handle)
    yield arena
    arena.close()


def sealed(
    plan: _native.Plan,
    arena: _native.Arena,
    batches: Iterable[pa.RecordBatch],
    epoch: int = 0,
    watermark: int = LONG_AGO,
) -> bytes:
    """The receipt of a block of these rows."""
    accumulator = _native.Accumulator(plan, watermark)
    for batch in batches:
        accumulator.add(batch)
    return accumulator.seal(arena, QUERY, epoch, 0)


def sealed_rows(
    query: Query, arena: _native.Arena, rows: list[Row], epoch: int = 0, watermark: int = LONG_AGO, large: bool = False
) -> bytes:
    """The receipt of a block of these rows, added in two batches, the second one a slice of a longer one."""
    plan = _native.Plan(query.text)
    half = len(rows) // 2
    whole = to_batch(query, rows, large)
    return sealed(plan, arena, [to_batch(query, rows[:half], large), whole.slice(half)], epoch, watermark)


def add_block(
    merger: _native.Merger,
    arena: _native.Arena,
    raw: bytes,
    panes: tuple[int, int] = FOREVER,
    prefixes: tuple[int, int] = (0, PREFIXES),
) -> None:
    """Adds what a merge task would read of a block."""
    head = _native.Head(raw)
    for offset, length in head.ranges(*panes, *prefixes):
        merger.add(raw, offset, arena.view(head.arena_offset + offset, length))


def merged(
    query: Query,
    arena: _native.Arena,
    blocks: Iterable[bytes],
    windows: list[int],
    prefixes: tuple[int, int] = (0, PREFIXES),
    max_rows: int = 65536,
) -> pa.Table:
    """Rows of the windows."""
    plan = _native.Plan(query.text)
    merger = _native.Merger(plan, windows, *prefixes)
    for raw in blocks:
        add_block(merger, arena, raw, prefixes=prefixes)
    return read_all(merger, plan, max_rows)
