"""A block file: an Arrow IPC file, with one row for each segment.

    block      int32                  which block of the file
    pane       timestamp[us, UTC]     start of the slice of event time
    prefix_lo  uint32                 first hash prefix of the segment's keys
    groups     uint32                 keys in it
    segment    large_binary           keys and partial states, as in memory

The schema's metadata holds the format's version, the plan and each block's head (base64). The segments are the bytes
of the arena, unchanged: they carry CRCs of their own, and writing them costs no copy but the file system's.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from pyslash._native import Head, Merger, SessionMerger, crc32c
from pyslash.errors import CorruptBlockError
from pyslash.state.files.block_head import ENTRY, HEADER_BYTES, SEGMENT_COUNT

FORMAT = "1"
ALL_PREFIXES = (0, 1 << 32)
_ALIGNED = 64
_COLUMNS = [
    pa.field("block", pa.int32(), nullable=False),
    pa.field("pane", pa.timestamp("us", "UTC"), nullable=False),
    pa.field("prefix_lo", pa.uint32(), nullable=False),
    pa.field("groups", pa.uint32(), nullable=False),
    pa.field("segment", pa.large_binary(), nullable=False),
]


@dataclass(frozen=True)
class Segment:
    """Where a segment lies in its block, and what its bytes must add up to."""

    pane: int
    prefix_lo: int
    prefix_bits: int
    groups: int
    crc: int
    offset: int
    length: int


@dataclass(frozen=True)
class StoredBlock:
    """A block that was read: its head, and its segments in order, all checked."""

    head: bytes
    segments: list[tuple[Segment, Any]]


def segments_of(raw: bytes) -> list[Segment]:
    """The segments that a checked head lists."""
    at, form = SEGMENT_COUNT
    (count,) = form.unpack_from(raw, at)
    found = []
    for index in range(count):
        pane, lo, bits, rows, crc, offset, length, _ = ENTRY.unpack_from(raw, HEADER_BYTES + index * ENTRY.size)
        found.append(Segment(pane, lo, bits, rows, crc, offset, length))
    return found


def write(plan: str, blocks: Sequence[Any], sink: Any) -> None:
    """Write the file of these whole blocks (buffers) of one plan to `sink`, a file or a stream of pyarrow.

    The segments go as they lie in memory: `sink.write` gets each block's in one piece.

    Raises:
        CorruptBlockError: the head of a block fails its checks.
    """
    heads = [bytes(memoryview(block)[: Head(block).head_length]) for block in blocks]
    text = json.dumps([base64.b64encode(head).decode() for head in heads])
    schema = pa.schema(_COLUMNS, {"pyslash.format": FORMAT, "pyslash.plan": plan, "pyslash.heads": text})
    with pa.ipc.new_file(sink, schema) as writer:
        for index, (block, head) in enumerate(zip(blocks, heads, strict=True)):
            listed = segments_of(head)
            columns = [
                pa.array([index] * len(listed), pa.int32()),
                pa.array([one.pane for one in listed], pa.int64()).cast(pa.timestamp("us", "UTC")),
                pa.array([one.prefix_lo for one in listed], pa.uint32()),
                pa.array([one.groups for one in listed], pa.uint32()),
                _segments(pa.py_buffer(block), listed),
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def encode(plan: str, blocks: Sequence[Any]) -> pa.Buffer:
    """The file of these whole blocks (buffers) of one plan, in memory.

    Raises:
        CorruptBlockError: the head of a block fails its checks.
    """
    sink = pa.BufferOutputStream()
    write(plan, blocks, sink)
    return sink.getvalue()


def decode(data: pa.Buffer, name: str) -> list[StoredBlock]:
    """The blocks of a file; every head and segment has passed its CRC.

    Raises:
        CorruptBlockError: torn, truncated, changed, or of another format.
    """
    found = opened(data, name)
    for block in found:
        for segment, value in block.segments:
            if crc32c(value) != segment.crc:
                raise CorruptBlockError(f"{name}: the CRC32C of the segment at {segment.offset} does not match")
    return found


def opened(data: pa.Buffer, name: str) -> list[StoredBlock]:
    """The blocks of a file, of which the heads alone are checked: what merges segments checks those that it takes.

    Raises:
        CorruptBlockError: torn, truncated, or of another format.
    """
    try:
        reader = pa.ipc.open_file(data)
        metadata = reader.schema.metadata or {}
        if metadata.get(b"pyslash.format") != FORMAT.encode():
            raise CorruptBlockError(f"{name} is not a block file of format {FORMAT}")
        heads = [base64.b64decode(head, validate=True) for head in json.loads(metadata[b"pyslash.heads"])]
        columns = [reader.get_batch(index).column("segment") for index in range(reader.num_record_batches)]
        for column in columns:
            column.validate(full=True)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise CorruptBlockError(f"{name} is no block file: {error}") from None
    if len(heads) != len(columns):
        raise CorruptBlockError(f"{name} has {len(columns)} blocks, but {len(heads)} heads")
    return [_listed(head, column, name) for head, column in zip(heads, columns, strict=True)]


def _segments(block: pa.Buffer, listed: list[Segment]) -> pa.Array:
    """The segments as one column over the block's own memory: they lie back to back."""
    if not listed:
        return pa.array([], pa.large_binary())
    ends = [one.offset + one.length for one in listed]
    if [one.offset for one in listed[1:]] != ends[:-1]:
        raise CorruptBlockError("the segments of a block do not lie back to back")
    first = listed[0].offset
    bounds = pa.array([0, *(end - first for end in ends)], pa.int64()).buffers()[1]
    body = block.slice(first, ends[-1] - first)
    return pa.Array.from_buffers(pa.large_binary(), len(listed), [None, bounds, body])


def _listed(head: bytes, column: pa.Array, name: str) -> StoredBlock:
    Head(head)
    listed = segments_of(head)
    if len(listed) != len(column) or column.type != pa.large_binary():
        raise CorruptBlockError(f"{name}: a block of {len(listed)} segments has {len(column)} of {column.type}")
    if not listed:
        return StoredBlock(head, [])
    # A value of Arrow's would be a copy: whoever merges a few segments of a large file needs no more than these.
    _, bounds, values = column.buffers()
    at = np.frombuffer(bounds, np.int64, len(listed) + 1, column.offset * 8).tolist()
    found = []
    for segment, (start, end) in zip(listed, pairwise(at), strict=True):
        if values is None or end - start != segment.length:
            raise CorruptBlockError(f"{name}: the segment at {segment.offset} has another length than its head says")
        found.append((segment, values.slice(start, segment.length)))
    return StoredBlock(head, found)


def merge_stored(
    merger: Merger | SessionMerger, panes: tuple[int, int], prefixes: tuple[int, int], blocks: list[StoredBlock]
) -> Iterator[pa.RecordBatch]:
    """Rows that a merger makes of those segments of the blocks that have these panes (first, end) and hash prefixes.

    Raises:
        CorruptBlockError: a segment fails its checks.
    """
    for block in blocks:
        head = Head(block.head)
        needed = head.ranges(*panes, *prefixes)
        for segment, data in block.segments:
            if any(offset <= segment.offset < offset + length for offset, length in needed):
                merger.add(head, segment.offset, _aligned(data))
    while (merged := merger.next()) is not None:
        yield pa.record_batch(merged)


def _aligned(data: pa.Buffer) -> pa.Buffer:
    """Segments of a file lie where Arrow puts them; native code wants them on a cache line."""
    if data.address % _ALIGNED == 0:
        return data
    copy = pa.allocate_buffer(data.size)
    memoryview(copy).cast("B")[:] = memoryview(data).cast("B")
    return copy
