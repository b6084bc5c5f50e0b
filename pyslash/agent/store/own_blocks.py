"""An agent's own blocks of a query, and what the query's driver has not heard of them yet."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyslash.agent.store.block_set import BlockSet, Holding, LiveBlock

_MOST_BYTES = 2 << 20  # of heads in an answer, as text: half of what a message may have
_numbers = itertools.count(1)  # no two answers, and no two changes, of an agent have the same


@dataclass
class OwnBlocks(BlockSet):
    """Live blocks, and what has come and gone since the driver's last answer.

    A driver names the last answer that it has. The next one says what has changed since then, as much of it as a
    message holds; if the driver knows another answer, or none, it begins with all that is live.
    """

    _answer: int = 0
    _changed: dict[int, int] = field(default_factory=dict)  # by offset: the number of its last change
    _told: dict[int, int] = field(default_factory=dict)  # those of the last answer

    def add(self, blocks: Iterable[LiveBlock]) -> None:
        """More blocks."""
        more = list(blocks)
        super().add(more)
        self._note(block.offset for block in more)

    def retire(self, holding: Holding, offsets: list[int]) -> None:
        """These live blocks are needed no more."""
        super().retire(holding, offsets)
        self._note(offsets)

    def changes(self, known: int) -> dict[str, Any]:
        """What a driver does not know that has heard the answer `known` last (0: none).

        `answer` is the number of this one. `whole`: what it knew is void. `gone` are offsets, and go first; `heads` are
        [offset, head as Base64] of new blocks. `more`: the rest follows with the next answer.
        """
        whole = not known or known != self._answer
        if whole:
            self._changed.clear()
            self._note(sorted(self.live))
        else:
            for offset, number in self._told.items():
                if self._changed.get(offset) == number:
                    del self._changed[offset]
        self._answer, self._told = next(_numbers), {}
        gone: list[int] = []
        heads: list[list[Any]] = []
        size = 0
        for offset, number in self._changed.items():
            if size > _MOST_BYTES:
                break
            self._told[offset] = number
            if (block := self.live.get(offset)) is None:
                gone.append(offset)
            else:
                heads.append([offset, base64.b64encode(block.head).decode()])
                size += len(heads[-1][1])
            size += 24
        more = len(self._told) < len(self._changed)
        return {"answer": self._answer, "whole": whole, "gone": gone, "heads": heads, "more": more}

    def _note(self, offsets: Iterable[int]) -> None:
        self._changed.update((offset, next(_numbers)) for offset in offsets)
