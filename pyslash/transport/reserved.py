"""Which bytes of an arena a peer may write: those of a block that the agent itself has allocated and not yet published.

An agent reserves such a block for a replica. A block that a task of this host is writing belongs to that task, so no
peer can touch it.
"""

from __future__ import annotations

import os
from typing import Any

from pyslash._native import Arena
from pyslash.errors import InvalidRequestError
from pyslash.state.block_state import BlockState
from pyslash.units import ArenaOffset


def write_all(fd: int, data: Any, at: int) -> int:
    """Copies `data` (buffer protocol) into the arena's file at offset `at`; its length in bytes."""
    left = memoryview(data).cast("B")
    while left:
        written = os.pwrite(fd, left, at)
        left, at = left[written:], at + written
    return memoryview(data).nbytes


def reserved_block(arena: Arena, agent_pid: int, query: bytes, offset: ArenaOffset, length: int) -> ArenaOffset:
    """Where the block begins that the agent `agent_pid` has reserved for the query and [offset, offset + length) is in.

    Raises:
        InvalidRequestError: it does not; nothing may be written there.
    """
    for start, size, state, owner, block_query, _ in arena.blocks():
        if start <= offset < start + size:
            if state != BlockState.ALLOCATED or owner != agent_pid or block_query != query:
                raise InvalidRequestError(f"the block at {start} is not reserved for a replica of this query")
            if offset + length > start + size:
                raise InvalidRequestError(
                    f"range [{offset}, {offset + length}) leaves the reserved block [{start}, {start + size})"
                )
            return start
    raise InvalidRequestError(f"nothing is reserved at {offset}")
