"""Putting a stored block into an arena: the same segments behind a head that says where they lie now."""

from __future__ import annotations

import struct
from typing import Any

from pyslash._native import crc32c
from pyslash.agent.reserved import write_all
from pyslash.checkpoint.block_file import StoredBlock

# native/core/include/pyslash/block.h: query, incarnation, epoch, attempt, arena_offset; head_crc.
_IDENTITY = struct.Struct("<16s16sqqQ")
_IDENTITY_AT = 24
_CRC = struct.Struct("<I")
_CRC_AT = 128


def adopt(arena: Any, fd: int, query: bytes, epoch: int, block: StoredBlock) -> bytes:
    """The head of the block, published in the arena whose memory is the file `fd`; `epoch` is the arena's book-keeping.

    Raises:
        ArenaFullError: no room for it; nothing has changed.
    """
    last, _ = block.segments[-1]
    offset = arena.allocate(last.offset + last.length, query, epoch)
    try:
        head = rehomed(block.head, query, arena.incarnation, offset)
        write_all(fd, head, offset)
        for segment, data in block.segments:
            write_all(fd, data, offset + segment.offset)
    except BaseException:
        arena.free(offset)
        raise
    arena.publish(offset)
    return head


def rehomed(raw: bytes, query: bytes, incarnation: bytes, offset: int) -> bytes:
    """A head with another place: query, incarnation and offset in its arena."""
    head = bytearray(raw)
    _, _, epoch, attempt, _ = _IDENTITY.unpack_from(head, _IDENTITY_AT)
    _IDENTITY.pack_into(head, _IDENTITY_AT, query, incarnation, epoch, attempt, offset)
    _CRC.pack_into(head, _CRC_AT, 0)
    _CRC.pack_into(head, _CRC_AT, crc32c(head))
    return bytes(head)
