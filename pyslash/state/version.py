"""What is live of a query: one value, which every agent's edits bring from one version to the next.

Whatever an epoch asks of it costs what the answer holds, however much is live: blocks are found by agent, pane and
epoch, and what is asked in every epoch is counted as blocks come and go.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pyslash._native import Head
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.version_edit import VersionEdit
from pyslash.state.receipt import Receipt
from pyslash.units import ALL_PANES, BEFORE_ALL_PANES, NO_EPOCH, ArenaOffset, Epoch


@dataclass(frozen=True)
class LiveBlock:
    """A committed block: the agent that holds it, its head, and its panes as (start, groups, bytes)."""

    agent: AgentDescriptor
    head: Head
    raw: bytes
    panes: tuple[tuple[int, int, int], ...]
    epoch: Epoch

    @classmethod
    def of(cls, agent: AgentDescriptor, raw: bytes) -> LiveBlock:
        """The block that a head describes."""
        head = Head(raw)
        return cls(agent, head, raw, tuple(head.panes), head.epoch)


def heads_of(blocks: Iterable[LiveBlock]) -> list[tuple[AgentDescriptor, bytes]]:
    """Agent and raw head of each block, as requests have them."""
    return [(block.agent, block.raw) for block in blocks]


@dataclass
class Size:
    """How much some blocks hold."""

    groups: int = 0
    bytes: int = 0

    def add(self, groups: int, size: int) -> None:
        """So many more."""
        self.groups += groups
        self.bytes += size


@dataclass
class _Pane:
    """The blocks of an agent, by offset, that have groups of a pane, and how much of it."""

    size: Size = field(default_factory=Size)
    offsets: set[ArenaOffset] = field(default_factory=set)


class _Share:
    """The live blocks of one agent."""

    def __init__(self) -> None:
        self.number = 0  # of the last edit
        self.length = 0  # bytes of all blocks
        self.size = Size()  # of what they hold of all panes
        self.blocks: dict[ArenaOffset, LiveBlock] = {}
        self._panes: dict[int, _Pane] = {}
        self._starts: list[int] = []  # of the panes, ascending
        self._epochs: dict[Epoch, set[ArenaOffset]] = {}

    def apply(self, agent: AgentDescriptor, edit: VersionEdit) -> None:
        """What has come and gone."""
        self.number = edit.number
        for offset in edit.gone:
            self._remove(offset)
        for offset, raw in edit.heads.items():
            self._remove(offset)
            self._add(offset, LiveBlock.of(agent, raw))

    def _add(self, offset: ArenaOffset, block: LiveBlock) -> None:
        self.blocks[offset] = block
        self.length += block.head.length
        self._epochs.setdefault(block.epoch, set()).add(offset)
        for start, groups, size in block.panes:
            if (pane := self._panes.get(start)) is None:
                pane = self._panes[start] = _Pane()
                insort(self._starts, start)
            pane.offsets.add(offset)
            pane.size.add(groups, size)
            self.size.add(groups, size)

    def _remove(self, offset: ArenaOffset) -> None:
        block = self.blocks.pop(offset, None)
        if block is None:
            return
        self.length -= block.head.length
        of_epoch = self._epochs[block.epoch]
        of_epoch.remove(offset)
        if not of_epoch:
            del self._epochs[block.epoch]
        for start, groups, size in block.panes:
            pane = self._panes[start]
            pane.offsets.discard(offset)
            pane.size.add(-groups, -size)
            self.size.add(-groups, -size)
            if not pane.offsets:
                del self._panes[start]
                del self._starts[bisect_left(self._starts, start)]

    def of_epoch(self, epoch: Epoch) -> Iterable[LiveBlock]:
        """Those that an epoch has written, and nothing has replaced yet."""
        return self._in_order(self._epochs.get(epoch, ()))

    def within(self, first: int, end: int) -> Iterable[LiveBlock]:
        """Those with groups of panes in [first, end)."""
        return self._in_order(set().union(*(self._panes[start].offsets for start in self.panes(first, end))))

    def panes(self, first: int, end: int) -> list[int]:
        """Starts of the panes in [first, end) that there are."""
        return self._starts[bisect_left(self._starts, first) : bisect_left(self._starts, end)]

    def size_within(self, first: int, end: int) -> Size:
        """Of panes in [first, end)."""
        return _sum(self._panes[start].size for start in self.panes(first, end))

    @property
    def last_pane(self) -> int:
        """The last one that there is."""
        return self._starts[-1] if self._starts else BEFORE_ALL_PANES

    def _in_order(self, offsets: Iterable[ArenaOffset]) -> Iterable[LiveBlock]:
        return [self.blocks[offset] for offset in sorted(offsets)]


@dataclass(frozen=True)
class VersionStep:
    """The names of the versions before and after an epoch."""

    before: str
    after: str


class StateVersion:
    """The live blocks of every agent as of an epoch, under the name that manifests and executors know it by.

    `epoch` is the last one that was committed in this run, -1 if none was. Blocks have one order: of their agents as
    these were heard of, then of their offsets.
    """

    def __init__(self, name: str = "") -> None:
        """Nothing is live."""
        self.name = name
        self.epoch = NO_EPOCH
        self.number = 0  # how many edits have brought it here
        self._lock = threading.Lock()
        self._shares: dict[str, _Share] = {}

    def commit(self, epoch: Epoch, name: str, edits: Mapping[AgentDescriptor, VersionEdit]) -> None:
        """Every agent has made an epoch part of its state."""
        self.epoch, self.name = epoch, name
        for agent, edit in edits.items():
            self.apply(agent, edit)

    def apply(self, agent: AgentDescriptor, edit: VersionEdit) -> None:
        """An agent has told what has come and gone since its edit before."""
        with self._lock:
            self.number += 1
            if edit.whole:
                self._shares[agent.incarnation] = _Share()
            self._shares[agent.incarnation].apply(agent, edit)

    def known(self, name: str) -> int:
        """The number of an agent's last edit; 0: there was none."""
        share = self._shares.get(name)
        return share.number if share is not None else 0

    def __len__(self) -> int:
        """How many blocks are live."""
        return sum(len(share.blocks) for share in self._shares.values())

    def has(self, name: str) -> bool:
        """Whether an agent holds any."""
        return name in self._shares and bool(self._shares[name].blocks)

    def of_epoch(self, epoch: Epoch) -> list[LiveBlock]:
        """The blocks that an epoch has written, and nothing has replaced yet."""
        return [block for share in self._shares.values() for block in share.of_epoch(epoch)]

    def within(self, first: int, end: int) -> list[LiveBlock]:
        """The blocks with groups of panes in [first, end)."""
        return [block for share in self._shares.values() for block in share.within(first, end)]

    def within_as_of(self, number: int, first: int, end: int) -> list[LiveBlock] | None:
        """The same for another thread than that which applies edits; None: the version of that number is over."""
        with self._lock:
            return self.within(first, end) if self.number == number else None

    def blocks(self) -> list[LiveBlock]:
        """All of them."""
        return [block for share in self._shares.values() for _, block in sorted(share.blocks.items())]

    def panes(self, first: int = ALL_PANES[0], end: int = ALL_PANES[1]) -> set[int]:
        """Starts of the panes in [first, end) that there are groups of."""
        return {start for share in self._shares.values() for start in share.panes(first, end)}

    @property
    def size(self) -> Size:
        """Of all panes."""
        return _sum(share.size for share in self._shares.values())

    def size_within(self, first: int, end: int) -> Size:
        """Of panes in [first, end)."""
        return _sum(share.size_within(first, end) for share in self._shares.values())

    def held_with(self, written: Iterable[Receipt]) -> dict[str, tuple[int, int]]:
        """Of each agent that holds something once these blocks are live too: its last pane, and bytes."""
        held = {name: (share.last_pane, share.length) for name, share in self._shares.items() if share.blocks}
        for one in written:
            last, size = held.get(one.agent.incarnation, (BEFORE_ALL_PANES, 0))
            last = max([last, *(pane for pane, _, _ in one.head.panes)])
            held[one.agent.incarnation] = (last, size + one.head.length)
        return held


def length_of(blocks: Iterable[LiveBlock]) -> int:
    """Bytes of them."""
    return sum(block.head.length for block in blocks)


def panes_of(blocks: Iterable[LiveBlock]) -> set[int]:
    """The panes that these blocks have groups of."""
    return {pane for block in blocks for pane, _, _ in block.panes}


def _sum(sizes: Iterator[Size]) -> Size:
    total = Size()
    for size in sizes:
        total.add(size.groups, size.bytes)
    return total
