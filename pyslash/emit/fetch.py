"""Reads a task's range of hash prefixes in parts, each from all blocks, while the part before it is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pyslash._native import Head
from pyslash.emit.look_ahead import look_ahead
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.transport import Transport, choose_transport

PART_BYTES = 8 << 20
"""Bytes that a part should have: many messages are on their way at once, and few of them in memory."""

_MOST_PARTS = 64
# A segment that reaches into two parts is read for both. Where parts would cost more than that, there is one.
_MOST_REPEATED = 1.25

Prefixes = tuple[int, int]


@dataclass
class Part:
    """The hash prefixes in [lo, hi) of all blocks: (head, offset in the block, bytes) for each."""

    prefixes: Prefixes
    pieces: list[tuple[bytes, int, Any]] = field(default_factory=list)
    moved: list[tuple[str, int]] = field(default_factory=list)
    """(transport, bytes) of each read."""

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(size for _, size in self.moved)


class Fetch:
    """The reads of one task. Transports are chosen once."""

    def __init__(
        self,
        blocks: list[tuple[AgentDescriptor, bytes]],
        panes: tuple[int, int],
        mode: str,
        credentials: tuple[bytes, bytes],
        timeout_seconds: float,
    ) -> None:
        """`blocks` are (agent, head) each, `panes` is [first, end) in microseconds, `mode` a conf's transport.

        `credentials` are the query's id and token; `timeout_seconds` bounds each read, connecting included.
        """
        self._blocks = [(agent, raw, Head(raw)) for agent, raw in blocks]
        self._panes, self._mode, self._credentials, self._timeout = panes, mode, credentials, timeout_seconds
        self._chosen: dict[tuple[AgentDescriptor, bool], Transport] = {}

    def parts(self, prefixes: Prefixes, step: int = 1) -> Iterator[Part]:
        """The parts of a range of prefixes, in order; one that is read over a network is read ahead.

        The range is cut at whole steps only: no segment of `step` prefixes is then read for two parts.

        Raises:
            SlashError: a read failed; a subclass says how.
        """
        cuts = self._cuts(prefixes, step)
        parts = map(self._read, cuts)
        return parts if len(cuts) == 1 else look_ahead(parts, lambda part: part.size, PART_BYTES)

    def whole(self, prefixes: Prefixes) -> Part:
        """A whole range of prefixes in one part, so that no segment is read twice."""
        return self._read(prefixes)

    def _cuts(self, prefixes: Prefixes, step: int) -> list[Prefixes]:
        # Shared memory is not copied, so there is nothing to wait for.
        remote = [
            (agent, head)
            for agent, _, head in self._blocks
            if head.ranges(*self._panes, *prefixes) and self._transport(agent, head).name != "shm"
        ]

        def size(part: Prefixes) -> int:
            return sum(length for _, head in remote for _, length in head.ranges(*self._panes, *part))

        whole = size(prefixes)
        # A power of two, as the prefixes of a segment are: fewer segments then reach into two parts.
        count = min(_MOST_PARTS, 1 << (max(0, whole - 1) // PART_BYTES).bit_length())
        count = min(count, (prefixes[1] - prefixes[0]) // step)
        while count > 1:
            cuts = equal_cuts(prefixes, count, step)
            if sum(map(size, cuts)) <= _MOST_REPEATED * whole:
                return cuts
            count //= 2
        return [prefixes]

    def _read(self, prefixes: Prefixes) -> Part:
        part = Part(prefixes)
        for agent, raw, head in self._blocks:
            ranges = head.ranges(*self._panes, *prefixes)
            if ranges:
                transport = self._transport(agent, head)
                buffers = transport.read(agent, head.arena_offset, ranges)
                part.pieces += [(raw, offset, buffer) for (offset, _), buffer in zip(ranges, buffers, strict=True)]
                part.moved += [(transport.name, length) for _, length in ranges]
        return part

    def _transport(self, agent: AgentDescriptor, head: Head) -> Transport:
        # A block beyond the arena is on the agent's disk, and only the agent itself can serve it.
        spilled = head.arena_offset >= agent.arena_bytes
        if (agent, spilled) not in self._chosen:
            mode = "tcp" if spilled else self._mode
            self._chosen[agent, spilled] = choose_transport(agent, mode, *self._credentials, self._timeout)
        return self._chosen[agent, spilled]


def equal_cuts(prefixes: Prefixes, count: int, step: int = 1) -> list[Prefixes]:
    """The range in equal parts of whole steps. Keys are hashed, so bytes are equal too; a hot key is one entry.

    >>> equal_cuts((0, 1 << 32), 2)
    [(0, 2147483648), (2147483648, 4294967296)]
    >>> equal_cuts((20, 50), 2, step=10)
    [(20, 30), (30, 50)]
    """
    lo, hi = prefixes
    steps = (hi - lo) // step
    return list(pairwise(lo + steps * index // count * step for index in range(count + 1)))
