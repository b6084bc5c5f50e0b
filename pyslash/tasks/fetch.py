"""Reading ranges of blocks out of the agents that hold them, each by the transport that reaches its agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyslash._native import Head
from pyslash.agent.descriptor import AgentDescriptor
from pyslash.transport import choose_transport


@dataclass(frozen=True)
class Piece:
    """Bytes of a block from `offset` on, and the block's head, as it came and parsed."""

    raw: bytes
    head: Head
    offset: int
    buffer: Any


def fetch(
    blocks: Iterable[tuple[AgentDescriptor, bytes]],
    panes: tuple[int, int],
    prefixes: tuple[int, int],
    mode: str,
    query: bytes,
    token: bytes,
    count: Callable[[str, int], None],
) -> Iterator[Piece]:
    """What blocks (agent, raw head) hold of these panes and hash prefixes, a block after the other.

    `count` is told (transport, bytes) for each piece that has been taken.
    """
    for agent, raw in blocks:
        head = Head(raw)
        ranges = head.ranges(*panes, *prefixes)
        if not ranges:
            continue
        # A block beyond the arena is on the agent's disk, and only the agent itself can serve it.
        reach = "tcp" if head.arena_offset >= agent.arena_bytes else mode
        transport = choose_transport(agent, reach, query, token)
        for (offset, length), buffer in zip(ranges, transport.read(agent, head.arena_offset, ranges), strict=True):
            yield Piece(raw, head, offset, buffer)
            count(transport.name, length)
