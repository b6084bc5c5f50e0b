"""The head of a block as bytes, where Python reads or rewrites it itself (native/core/include/pyslash/block.h)."""

from __future__ import annotations

import struct
from typing import Any

from pyslash._native import crc32c
from pyslash.errors import CorruptBlockError

HEADER_BYTES = 192  # the segments' entries follow
HEAD_LENGTH = (12, struct.Struct("<I"))  # (place in the header, form)
FINGERPRINT = (16, struct.Struct("<Q"))
IDENTITY = (24, struct.Struct("<16s16sqqQ"))  # query, incarnation, epoch, attempt, arena_offset
LENGTH = (80, struct.Struct("<Q"))
SEGMENT_COUNT = (120, struct.Struct("<I"))
PLAN_LENGTH = (124, struct.Struct("<I"))
CRC = (128, struct.Struct("<I"))
ENTRY = struct.Struct("<qIIIIQQQ")  # pane, prefix_lo, prefix_bits, rows, crc, offset, length, reserved


def copied_head(block: Any) -> bytes:
    """The head at the start of a block, as long as it says that it is: to be checked, and used, in this copy alone."""
    view = memoryview(block).cast("B")
    if view.nbytes < HEADER_BYTES:
        raise CorruptBlockError(f"the head of a block: {view.nbytes} bytes are too few")
    at, form = HEAD_LENGTH
    (length,) = form.unpack_from(view, at)
    return bytes(view[:length])


def head_crc(raw: Any) -> int:
    """The CRC32C that stands in a block's head: no two blocks of an epoch have the same head."""
    at, form = CRC
    return int(form.unpack_from(raw, at)[0])


def rechecked(head: bytearray) -> bytes:
    """The head after a change, under a CRC32C that is right again."""
    at, form = CRC
    form.pack_into(head, at, 0)
    form.pack_into(head, at, crc32c(head))
    return bytes(head)
