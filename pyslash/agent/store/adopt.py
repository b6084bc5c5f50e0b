"""Puts a stored block into an arena: the same segments behind a head that says where they lie now."""

from __future__ import annotations

from pyslash._native import Arena, Head
from pyslash.errors import CorruptBlockError
from pyslash.state.files.block_file import StoredBlock
from pyslash.state.files.block_head import IDENTITY, rechecked
from pyslash.transport.reserved import write_all
from pyslash.units import ArenaOffset, Epoch


def adopt(arena: Arena, fd: int, query: bytes, epoch: Epoch, block: StoredBlock, made_in: Epoch | None = None) -> bytes:
    """The head of the block, published in the arena whose memory is the file `fd`; `epoch` is the arena's book-keeping.
    The block stays of the epoch that it was made in, unless it is to be of another.

    Raises:
        ArenaFullError: no room for it; nothing has changed.
        CorruptBlockError: its segments are not what its head says; nothing has changed.
    """
    length = Head(block.head).length
    for segment, data in block.segments:
        # The head's own check says the same; what is written to shared memory is checked where it is written.
        if segment.offset + segment.length > length or memoryview(data).nbytes != segment.length:
            raise CorruptBlockError(f"a segment at {segment.offset} leaves its block of {length} bytes")
    offset = arena.allocate(length, query, epoch)
    try:
        head = relocated(block.head, query, arena.incarnation, offset, made_in)
        write_all(fd, head, offset)
        for segment, data in block.segments:
            write_all(fd, data, offset + segment.offset)
    except BaseException:
        arena.free(offset)
        raise
    arena.publish(offset)
    return head


def relocated(raw: bytes, query: bytes, incarnation: bytes, offset: ArenaOffset, made_in: Epoch | None = None) -> bytes:
    """A head with another place: query, incarnation and offset in its arena; and of another epoch, if one is given."""
    head = bytearray(raw)
    at, form = IDENTITY
    _, _, epoch, attempt, _ = form.unpack_from(head, at)
    form.pack_into(head, at, query, incarnation, epoch if made_in is None else made_in, attempt, offset)
    return rechecked(head)
