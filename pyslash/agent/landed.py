"""What landings of this host hold already: a task is given a copy of what another one has brought.

The homes of one host follow the same changes, and a segment may be wanted by all of them. What has been brought is
known by the version of the state that it belongs to, since another block may lie at the same place in a later one.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from pyslash.agent.landing import Landing
from pyslash.transport import Placed

Source = Hashable
"""Whose blocks, and of which version."""

Key = tuple[Source, int, tuple[int, int]]
"""A range of the block at an offset."""


class Piece(NamedTuple):
    """A range in a landing."""

    landing: Landing
    bytes: memoryview


class Copy(NamedTuple):
    """Bytes of one landing to where another one wants them."""

    bytes: memoryview
    landing: Landing
    at: int


class Landed:
    """Of all landings of an agent that share what they hold; safe to share between threads."""

    def __init__(self) -> None:
        """Nothing."""
        self._lock = threading.Lock()
        self._pieces: dict[Key, Piece] = {}
        self._keys: defaultdict[Landing, list[Key]] = defaultdict(list)

    def divide(
        self, source: Source, landing: Landing, blocks: Iterable[Placed], coming: dict[Key, Piece]
    ) -> tuple[list[Placed], list[Copy]]:
        """What of these blocks has to be read from their agent, and what can be copied.

        What has to be read is added to what is `coming` with the next read: the copies of that are of use after it.
        """
        wanted, copies = [], []
        with self._lock:
            for block in blocks:
                ranges = []
                for offset, length in block.ranges:
                    key, at = (source, block.offset, (offset, length)), block.place + offset
                    piece = self._pieces.get(key) or coming.get(key)
                    if piece is None:
                        coming[key] = Piece(landing, landing.view(at, length))
                        ranges.append((offset, length))
                    else:
                        copies.append(Copy(piece.bytes, landing, at))
                if ranges:
                    wanted.append(block._replace(ranges=ranges))
        return wanted, copies

    def add(self, brought: dict[Key, Piece]) -> None:
        """These have been read."""
        with self._lock:
            self._pieces.update(brought)
            for key, piece in brought.items():
                self._keys[piece.landing].append(key)

    def forget(self, landing: Landing) -> None:
        """It goes. Copies of it that are being made keep its memory."""
        with self._lock:
            for key in self._keys.pop(landing, ()):
                if self._pieces[key].landing is landing:
                    del self._pieces[key]
