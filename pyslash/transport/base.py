"""The interface of a transport."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.units import ArenaOffset

Range = tuple[int, int]
"""Offset from the start of the block, and length, in bytes."""


class Memory(Protocol):
    """Where blocks are brought to."""

    def view(self, at: int, length: int) -> memoryview:
        """Writable memory that is to be filled by calls of the system alone."""
        ...

    def write(self, data: Any, at: int) -> None:
        """Copies bytes (buffer protocol) there."""
        ...


class Placed(NamedTuple):
    """Ranges of the block at `offset` of an arena, each to lie as far behind `place` of the memory as in its block."""

    offset: ArenaOffset
    ranges: list[Range]
    place: int
    memory: Memory

    @property
    def size(self) -> int:
        """Of its ranges, in bytes."""
        return sum(length for _, length in self.ranges)


class TransportCounters:
    """What a transport has moved since it was made."""

    def __init__(self) -> None:
        """Zero."""
        self._lock = threading.Lock()
        self.reads = 0
        self.bytes = 0
        self.writes = 0
        self.bytes_written = 0

    def add(self, size: int) -> None:
        """One read of `size` bytes."""
        with self._lock:
            self.reads += 1
            self.bytes += size

    def add_write(self, size: int) -> None:
        """One write of `size` bytes."""
        with self._lock:
            self.writes += 1
            self.bytes_written += size

    def __repr__(self) -> str:
        """All figures."""
        return (
            f"TransportCounters(reads={self.reads}, bytes={self.bytes}, "
            f"writes={self.writes}, bytes_written={self.bytes_written})"
        )


class Transport(Protocol):
    """Reads out of a peer's arena, and writes replicas into it; safe to share between threads."""

    name: str
    counters: TransportCounters

    def read(self, peer: AgentDescriptor, block_offset: ArenaOffset, ranges: list[Range]) -> list[Any]:
        """One read-only buffer (buffer protocol) for each range of the block at `block_offset` in the arena.

        The bytes are as the agent holds them: who decodes them checks their CRCs.

        Raises:
            StaleIncarnationError: the peer is no longer the agent that the descriptor names.
            AgentError: it cannot be reached, or refuses; a subclass says which.
        """
        ...

    def bring(self, peer: AgentDescriptor, blocks: Sequence[Placed]) -> None:
        """Reads ranges of several blocks of a peer, in one request where there are requests, into their places.

        Raises: as `read`, and
            AgentError: this host has no memory for them.
        """
        ...

    def write(self, peer: AgentDescriptor, reserved_offset: ArenaOffset, data: Any) -> None:
        """Writes `data` (buffer protocol) at `reserved_offset` of the peer's arena. It is complete when this returns.

        The peer's agent has reserved a block there for the transport's query (`agent.reserved`), and publishes it
        afterwards. Until then it is not read, so a write that failed half way is harmless and may be repeated.

        Raises:
            InvalidRequestError: the range is not reserved.
            StaleIncarnationError: the peer is no longer the agent that the descriptor names.
            AgentError: it cannot be reached, or refuses; a subclass says which.
        """
        ...

    def close(self) -> None:
        """Closes mappings and connections. Buffers that were handed out stay valid."""
        ...
