"""Blocks of any size: a header that says so, and bytes that follow from a seed, so that a reader knows them."""

from __future__ import annotations

import os
import random
import struct

from pyslash import _native
from tests.agent.blocks import QUERY

HEADER = struct.Struct("<QIIQ16s16sqqQQ")
HEADER_BYTES = 192
MAGIC = 0x014853414C535950


def body(seed: int, size: int) -> bytes:
    """What follows the header: 1 MiB of random bytes, over and over."""
    return (random.Random(seed).randbytes(min(size, 1 << 20)) * (size // (1 << 20) + 1))[:size]


def put(arena: _native.Arena, fd: int, seed: int, size: int) -> int:
    """A block of a header and `size` bytes in a fresh place of the arena; where."""
    length = HEADER_BYTES + size
    offset = arena.allocate(length, QUERY, 0)
    header = HEADER.pack(MAGIC, 1, HEADER_BYTES, 0, QUERY, arena.incarnation, 0, 0, offset, length)
    content = header.ljust(HEADER_BYTES, b"\0") + body(seed, size)
    written = 0
    while written < length:
        written += os.pwrite(fd, memoryview(content)[written:], offset + written)
    return offset
