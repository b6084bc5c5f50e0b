"""Blocks that owners read before their epoch is committed: rows on their way (`pyslash.streaming.repartition`)."""

from __future__ import annotations

from typing import Any

from pyslash import _native
from pyslash.agent.share import LiveBlock

_PUBLISHED = 2  # a block's state in the arena


def published(arena: Any, query: bytes, wanted: int) -> LiveBlock | None:
    """The query's block at an offset of the arena that a task has published and no commit has taken or freed yet."""
    for offset, length, state, _, owner, _ in arena.blocks():
        if offset == wanted and owner == query and state == _PUBLISHED:
            head = _native.Head(arena.view(offset, length))
            return LiveBlock.of(arena.view(offset, head.head_length))
    return None
