"""A home: the state of the keys of one of Spark's shuffle partitions, in the memory of a Python worker.

It is a cache of blocks of committed epochs. An epoch's own changes lie beside it until they are committed as a block,
which the next epoch folds in: so nothing has to be undone if the epoch fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from pyslash._native import Head
from pyslash.emit.merge import PREFIXES, MergeRequest, merge
from pyslash.operators.transform.state.key_state import NEVER_MS, times_of
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.state.files.block_head import head_crc

BlockId = tuple[str, int, int]
_KEY, _STATE = 2, 3  # columns of merged rows, behind the bounds of the window
_AN_ENTRY = 200  # bytes that a dictionary's entry takes besides its key and its value, about


@dataclass
class Home:
    """`kept` is the state of each key; `timers` and `expiries` are those of keys that have some, in milliseconds."""

    folded: frozenset[BlockId] = frozenset()
    kept: dict[bytes, bytes] = field(default_factory=dict)
    timers: dict[bytes, int] = field(default_factory=dict)
    expiries: dict[bytes, int] = field(default_factory=dict)
    size: int = 0

    def fold(self, request: MergeRequest, pane: int) -> None:
        """Become the state that these blocks make. Only new ones are read if all that are folded are among them."""
        blocks = {_id(agent, raw): (agent, raw) for agent, raw in request.blocks if _has(raw, pane)}
        if not self.folded <= blocks.keys():
            self.folded, self.kept, self.timers, self.expiries, self.size = frozenset(), {}, {}, {}, 0
        new = [block for name, block in blocks.items() if name not in self.folded]
        if new:
            for batch in merge(_of(request, new, pane), 0, PREFIXES, lambda transport, size: None):
                self._take(batch)
        self.folded = frozenset(blocks)

    def _take(self, batch: pa.RecordBatch) -> None:
        for key, state in zip(batch.column(_KEY).to_pylist(), batch.column(_STATE).to_pylist(), strict=True):
            before = self.kept.pop(key, None)
            if before is not None:
                self.size -= len(key) + len(before) + _AN_ENTRY
                self.timers.pop(key, None)
                self.expiries.pop(key, None)
            if not state:
                continue
            self.kept[key] = state
            self.size += len(key) + len(state) + _AN_ENTRY
            timer, expiry = times_of(state)
            if timer != NEVER_MS:
                self.timers[key] = timer
            if expiry != NEVER_MS:
                self.expiries[key] = expiry


class Homes:
    """Those that this process has, of all queries."""

    def __init__(self) -> None:
        self._homes: dict[tuple[bytes, int], Home] = {}

    def of(self, request: MergeRequest, number: int, pane: int) -> Home:
        """A query's home with this number, as of the blocks of the request; its state lies in the pane."""
        home = self._homes.pop((request.query_id, number), None) or Home()
        home.fold(request, pane)
        self._homes[request.query_id, number] = home  # not before: it may have been folded by half
        return home

    def keep_within(self, limit: int) -> None:
        """Drop homes, those that have not been used for longest first, until what is left has at most so many bytes."""
        size = sum(home.size for home in self._homes.values())
        for name in list(self._homes):
            if size <= limit:
                return
            size -= self._homes.pop(name).size


HOMES = Homes()


def _id(agent: AgentDescriptor, raw: bytes) -> BlockId:
    return agent.incarnation, Head(raw).arena_offset, head_crc(raw)


def _has(raw: bytes, pane: int) -> bool:
    return bool(Head(raw).ranges(pane, pane + 1, 0, PREFIXES))


def _of(request: MergeRequest, blocks: list[tuple[AgentDescriptor, bytes]], pane: int) -> MergeRequest:
    return replace(request, windows=[pane], panes=(pane, pane + 1), blocks=blocks)
