"""An agent's own blocks of a query, and what the query's driver has not heard of them yet."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyslash.agent.store.block_set import BlockSet, Holding, LiveBlock
from pyslash.protocol.version_edit import VersionEdit
from pyslash.units import ArenaOffset

_MOST_BYTES = 2 << 20  # of heads in an edit, as text: half of what a message may have
_numbers = itertools.count(1)  # no two edits, and no two changes, of an agent have the same


@dataclass
class OwnBlocks(BlockSet):
    """Live blocks, and what has come and gone since the last edit that was sent to the driver.

    A driver names the last edit that it has. The next one says what has changed since then, as much of it as a
    message holds; if the driver knows another edit, or none, it begins with all that is live.
    """

    _number: int = 0
    _changed: dict[ArenaOffset, int] = field(default_factory=dict)  # by offset: the number of its last change
    _told: dict[ArenaOffset, int] = field(default_factory=dict)  # those of the last edit

    def add(self, blocks: Iterable[LiveBlock]) -> None:
        """More blocks."""
        more = list(blocks)
        super().add(more)
        self._note(block.offset for block in more)

    def retire(self, holding: Holding, offsets: list[ArenaOffset]) -> None:
        """These live blocks are needed no more."""
        super().retire(holding, offsets)
        self._note(offsets)

    def edit_since(self, known: int) -> VersionEdit:
        """What a driver does not know that has heard the edit `known` last (0: none)."""
        whole = not known or known != self._number
        if whole:
            self._changed.clear()
            self._note(sorted(self.live))
        else:
            for offset, number in self._told.items():
                if self._changed.get(offset) == number:
                    del self._changed[offset]
        self._number, self._told = next(_numbers), {}
        gone: set[ArenaOffset] = set()
        heads: dict[ArenaOffset, bytes] = {}
        size = 0
        for offset, number in self._changed.items():
            if size > _MOST_BYTES:
                break
            self._told[offset] = number
            if (block := self.live.get(offset)) is None:
                gone.add(offset)
            else:
                heads[offset] = block.head
                size += 4 * len(block.head) // 3
            size += 24
        return VersionEdit(self._number, whole, frozenset(gone), heads, len(self._told) < len(self._changed))

    def _note(self, offsets: Iterable[ArenaOffset]) -> None:
        self._changed.update((offset, next(_numbers)) for offset in offsets)
