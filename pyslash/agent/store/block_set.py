"""Committed blocks that belong together, and the arena's blocks with a count of who uses each.

A block that readers or a compaction still use is *pinned*. A block that is no longer needed is *doomed*, and freed as
soon as it is unpinned. Nothing here locks: `AgentState` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyslash._native import Arena, Head
from pyslash.agent.store.spill import Disk
from pyslash.units import BEFORE_ALL_EPOCHS, ArenaOffset, Epoch


@dataclass(frozen=True)
class LiveBlock:
    """A committed block: where it lies, its epoch, its head as bytes, its panes as (start, groups, bytes).

    The offset is that in the arena, or beyond every arena: a place on disk (`spill`).
    """

    offset: ArenaOffset
    length: int
    epoch: Epoch
    head: bytes
    panes: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, head: Any) -> LiveBlock:
        """The block that a head (buffer protocol) describes."""
        raw = bytes(head)
        parsed = Head(raw)
        return cls(parsed.arena_offset, parsed.length, parsed.epoch, raw, tuple(parsed.panes))

    def dead_bytes(self, first_live_pane: int) -> int:
        """Bytes of panes that no open window needs."""
        return sum(size for pane, _, size in self.panes if pane < first_live_pane)

    def is_dead(self, first_live_pane: int) -> bool:
        """Whether no pane is alive."""
        return all(pane < first_live_pane for pane, _, _ in self.panes)


class Holding:
    """An arena's blocks: who uses them, and which are freed once they are unused."""

    def __init__(self, arena: Arena, counters: Counter[str]) -> None:
        self._arena = arena
        self._counters = counters
        self._pins: Counter[ArenaOffset] = Counter()
        self._doomed: set[ArenaOffset] = set()
        self.disk = Disk()

    @property
    def pinned(self) -> int:
        """Blocks in use."""
        return len(self._pins)

    def commit(self, query: bytes, offsets: list[ArenaOffset]) -> None:
        """Published blocks that belong to no epoch are the query's for good; those on disk are already."""
        self._arena.commit(query, BEFORE_ALL_EPOCHS, [offset for offset in offsets if offset not in self.disk])

    def view(self, block: LiveBlock, offset: int, length: int) -> Any:
        """Bytes of a block, wherever it lies."""
        if block.offset in self.disk:
            return self.disk.view(block.offset, offset, length)
        return self._arena.view(block.offset + offset, length)

    def is_idle(self, offset: ArenaOffset) -> bool:
        """Whether a block lies in the arena and is unused."""
        return offset not in self._pins and offset not in self.disk

    def is_in_use(self, offset: ArenaOffset) -> bool:
        """Whether a block lies in the arena, and stays there for now."""
        return offset in self._pins and offset not in self.disk

    def pin(self, offsets: Iterable[ArenaOffset]) -> None:
        """These stay where they are until `unpin`."""
        self._pins.update(offsets)

    def unpin(self, offsets: Iterable[ArenaOffset]) -> None:
        """Ends a `pin`."""
        for offset in offsets:
            self._pins[offset] -= 1
            if not self._pins[offset]:
                del self._pins[offset]
                if offset in self._doomed:
                    self._doomed.remove(offset)
                    self._free(offset)

    def free_when_unpinned(self, offsets: Iterable[ArenaOffset]) -> None:
        """Frees them, now or when they are unpinned."""
        for offset in offsets:
            if self._pins[offset]:
                self._doomed.add(offset)
            else:
                del self._pins[offset]
                self._free(offset)

    def _free(self, offset: ArenaOffset) -> None:
        if offset in self.disk:
            self.disk.free(offset)
        else:
            self._arena.free(offset)
        self._counters["freed"] += 1


@dataclass(frozen=True)
class Outcome:
    """A finished compaction: these blocks are replaced by that one (None: all their panes were dead).

    The blocks themselves: by the time it is swapped in, another one may lie where a block was that has been released.
    """

    inputs: tuple[LiveBlock, ...]
    block: LiveBlock | None

    def offsets(self) -> list[ArenaOffset]:
        """Where the new block lies; empty if there is none."""
        return [] if self.block is None else [self.block.offset]

    def is_dead(self, first_live_pane: int) -> bool:
        """Whether there is a new block, and no pane of it is alive."""
        return self.block is not None and self.block.is_dead(first_live_pane)


@dataclass
class BlockSet:
    """Live blocks of one query that are compacted with each other: an agent's own, or a replica of another agent's."""

    live: dict[ArenaOffset, LiveBlock] = field(default_factory=dict)
    compacting: bool = False
    spilling: LiveBlock | None = None  # on its way to disk: nothing folds it
    compacted: Outcome | None = None  # finished, waits for the next commit
    no_room: float = 0  # bytes in one piece that the last compaction found no room for, by each live byte of its inputs

    @property
    def total_bytes(self) -> int:
        """Arena bytes of the live blocks."""
        return sum(block.length for block in self.live.values())

    def add(self, blocks: Iterable[LiveBlock]) -> None:
        """More blocks."""
        self.live.update((block.offset, block) for block in blocks)

    def retire(self, holding: Holding, offsets: list[ArenaOffset]) -> None:
        """These live blocks are needed no more."""
        for offset in offsets:
            del self.live[offset]
        holding.free_when_unpinned(offsets)

    def release(self, holding: Holding, first_live_pane: int) -> int:
        """Blocks without a live pane go; how many."""
        dead = [block.offset for block in self.live.values() if block.is_dead(first_live_pane)]
        self.retire(holding, dead)
        self.let_go_of_dead(holding, first_live_pane)
        return len(dead)

    def let_go_of_dead(self, holding: Holding, first_live_pane: int) -> None:
        """A finished compaction goes if no pane of it is alive: of a query that has ended, no commit would take it."""
        if self.compacted is not None and self.compacted.is_dead(first_live_pane):
            holding.free_when_unpinned(self.compacted.offsets())
            self.compacted = None

    def swap(self, holding: Holding, query: bytes, first_live_pane: int) -> None:
        """A finished compaction takes its inputs' place."""
        compacted, self.compacted = self.compacted, None
        if compacted is None:
            return
        self.retire(holding, [block.offset for block in compacted.inputs if self._holds(block)])
        if compacted.block is not None:
            holding.commit(query, compacted.offsets())
            if compacted.block.is_dead(first_live_pane):
                holding.free_when_unpinned(compacted.offsets())
            else:
                self.add([compacted.block])

    def is_to_be_replaced(self, block: LiveBlock) -> bool:
        """Whether a finished compaction waits to take its place."""
        return self.compacted is not None and any(one is block for one in self.compacted.inputs)

    def _holds(self, block: LiveBlock) -> bool:
        return self.live.get(block.offset) is block

    def forget(self, holding: Holding) -> int:
        """Everything goes; how many live blocks that were."""
        count = len(self.live)
        self.retire(holding, list(self.live))
        if self.compacted is not None:
            holding.free_when_unpinned(self.compacted.offsets())
            self.compacted = None
        return count
