"""Bytes as a Flight stream: record batches of one large_binary value each, without a copy."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

SCHEMA = pa.schema([pa.field("bytes", pa.large_binary(), nullable=False)])
# Small enough that a message's copies stay in cache-sized buffers, large enough that its overhead does not show.
_MESSAGE_BYTES = 4 << 20


def messages(data: pa.Buffer) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The pieces of `data` in order, each with its size in bytes."""
    for start in range(0, data.size, _MESSAGE_BYTES):
        piece = data.slice(start, min(_MESSAGE_BYTES, data.size - start))
        bounds = pa.array([0, piece.size], pa.int64()).buffers()[1]
        array = pa.Array.from_buffers(pa.large_binary(), 1, [None, bounds, piece])
        yield pa.record_batch([array], schema=SCHEMA), piece.size
