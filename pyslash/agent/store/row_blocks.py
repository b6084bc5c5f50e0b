"""Blocks that are read before their epoch is committed, and never are part of it.

Rows on their way to their owners (docs/design/015), and candidates of a deduplication (docs/design/025).
"""

from __future__ import annotations

from pyslash._native import Arena, Head, Plan
from pyslash.agent.store.block_set import LiveBlock
from pyslash.state.block_state import BlockState
from pyslash.state.files.block_head import copied_head
from pyslash.units import ArenaOffset


def rows_on_their_way(arena: Arena, query: bytes, wanted: ArenaOffset) -> LiveBlock | None:
    """The query's block at an offset of the arena, if a task has published it and no commit has freed it."""
    for offset, length, state, _, owner, _ in arena.blocks():
        if offset == wanted and owner == query and state == BlockState.PUBLISHED:
            raw = copied_head(arena.view(offset, length))
            head = Head(raw)
            plan = Plan(head.plan_text)
            is_read = plan.deduplicates or plan.row_bits is not None
            if is_read and (head.arena_offset, head.length) == (offset, length):
                return LiveBlock.of(raw)
    return None
