"""What is read before its epoch is committed: blocks of rows, on their way to their owners (docs/design/015)."""

from __future__ import annotations

from typing import Any

from pyslash import _native
from pyslash.agent.published import PUBLISHED
from pyslash.agent.share import LiveBlock


def rows_on_their_way(arena: Any, query: bytes, wanted: int) -> LiveBlock | None:
    """The query's block of rows at an offset of the arena, if a task has published it and no commit has freed it."""
    for offset, length, state, _, owner, _ in arena.blocks():
        if offset == wanted and owner == query and state == PUBLISHED:
            head = _native.Head(arena.view(offset, length))
            if "\nrows " in head.plan_text:
                return LiveBlock.of(arena.view(offset, head.head_length))
    return None
