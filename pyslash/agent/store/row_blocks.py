"""Blocks that are read before their epoch is committed, and never are part of it.

Rows on their way to their owners (docs/design/015), and candidates of a deduplication (docs/design/025).
"""

from __future__ import annotations

from pyslash._native import Arena, Head
from pyslash.agent.store.block_set import LiveBlock
from pyslash.state.block_head import copied_head
from pyslash.state.block_state import BlockState

_READ = ("\nrows ", "\ndeduplicate\n")  # lines of their plans


def rows_on_their_way(arena: Arena, query: bytes, wanted: int) -> LiveBlock | None:
    """The query's block at an offset of the arena, if a task has published it and no commit has freed it."""
    for offset, length, state, _, owner, _ in arena.blocks():
        if offset == wanted and owner == query and state == BlockState.PUBLISHED:
            raw = copied_head(arena.view(offset, length))
            head = Head(raw)
            is_read = any(line in head.plan_text for line in _READ)
            if is_read and (head.arena_offset, head.length) == (offset, length):
                return LiveBlock.of(raw)
    return None
