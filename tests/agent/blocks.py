"""Blocks written into an agent's arena as an update task writes them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pyslash import _native
from pyslash.protocol.descriptor import AgentDescriptor

QUERY = bytes(range(16))
OTHER_QUERY = bytes(range(1, 17))
SECOND = 1_000_000
# Tumbling windows of 10 s, key bigint, sum and count of bigint: panes start at multiples of 10 s.
PLAN = """pyslash-plan 1
window 10000000 10000000 0
column int64 1
column int64 1
key 1
aggregate sum 2 1
aggregate count - 1
"""


def attach(agent: AgentDescriptor) -> _native.Arena:
    """The agent's arena, mapped into this process."""
    handle = os.open(agent.arena_path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return _native.Arena.attach(handle, agent.incarnation_bytes)
    finally:
        os.close(handle)


def rows(panes: list[int], keys: range) -> pa.RecordBatch:
    """One row for each pane (its start in seconds) and key; the value is the key."""
    times = [pane * SECOND for pane in panes for _ in keys]
    values = [key for _ in panes for key in keys]
    return pa.record_batch(
        [pa.array(times, pa.timestamp("us", "UTC")), pa.array(values, pa.int64()), pa.array(values, pa.int64())],
        names=["t", "k", "v"],
    )


def write(
    agent: AgentDescriptor,
    epoch: int,
    panes: list[int],
    keys: range = range(100),
    query: bytes = QUERY,
    attempt: int = 0,
) -> _native.Head:
    """A published block of these panes and keys."""
    accumulator = _native.Accumulator(_native.Plan(PLAN), -(1 << 62))
    accumulator.add(rows(panes, keys))
    return _native.Head(accumulator.seal(attach(agent), query, epoch, attempt))


def merged(agent: AgentDescriptor, heads: list[bytes], panes: list[int]) -> list[tuple[int, int, int]]:
    """(pane in seconds, key, sum) of all blocks together, read in place."""
    arena = attach(agent)
    return merged_from(lambda head, offset, length: arena.view(head.arena_offset + offset, length), heads, panes)


def merged_from(
    read: Callable[[_native.Head, int, int], Any], heads: list[bytes], panes: list[int]
) -> list[tuple[int, int, int]]:
    """The same, out of what `read` brings for (head, offset in the block, length)."""
    merger = _native.Merger(_native.Plan(PLAN), [pane * SECOND for pane in panes])
    for raw in heads:
        head = _native.Head(raw)
        for offset, length in head.ranges(-(1 << 62), 1 << 62, 0, 1 << 32):
            merger.add(raw, offset, read(head, offset, length))
    found = []
    while (batch := merger.next()) is not None:
        table = pa.record_batch(batch)
        starts = table.column(0).cast(pa.int64()).to_pylist()
        found += zip(starts, table.column(2).to_pylist(), table.column(3).to_pylist(), strict=True)
    return sorted((start // SECOND, key, total) for start, key, total in found)
