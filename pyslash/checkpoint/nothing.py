"""The state of a minimum or maximum that has seen no value: native code is asked for it."""

from __future__ import annotations

import os
import struct
from functools import cache

import pyarrow as pa

from pyslash._native import Accumulator, Arena, Head, Plan
from pyslash.arrow_types import arrow_type
from pyslash.checkpoint.block_file import segments_of

_ARENA_BYTES = 4 << 20
_VARIABLE = ("string", "binary")


def nothing_seen(function: str, kind: str, groups: int) -> list[bytes]:
    """The buffers of `min` or `max` over a column of this type, for groups whose rows were all null."""
    if kind in _VARIABLE:
        return [bytes(-(-groups // 8)), bytes(4 * (groups + 1)), b""]
    return [_identity(function, kind) * groups]


@cache
def _identity(function: str, kind: str) -> bytes:
    """The bytes of one value, out of a block of one group without keys, whose only row is null."""
    plan = Plan(f"pyslash-plan 1\nwindow 1 1 0\ncolumn {kind} 1\naggregate {function} 1 0\n")
    row = pa.record_batch(
        [pa.array([0], pa.int64()).view(pa.timestamp("us", "UTC")), pa.nulls(1, arrow_type(kind))], names=["t", "v"]
    )
    handle = os.memfd_create("pyslash-nothing", os.MFD_CLOEXEC)
    try:
        arena = Arena.create(handle, _ARENA_BYTES, bytes(16))
        accumulator = Accumulator(plan, -(1 << 62))
        accumulator.add(row)
        raw = accumulator.seal(arena, bytes(16), 0, 0)
        (segment,) = segments_of(raw)
        data = bytes(arena.view(Head(raw).arena_offset + segment.offset, segment.length))
    finally:
        os.close(handle)
    # Buffers: rows, nulls, the extreme; each behind the lengths, on a cache line of its own.
    rows, nulls, size = struct.unpack_from("<3Q", data)
    at = 64 + sum(-(-length // 64) * 64 for length in (rows, nulls))
    return data[at : at + size]
