"""Transport between hosts without RDMA: sealed frames over TCP, or the Unix socket of an agent that has no port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyslash.protocol.client import AgentClient, Wanted
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.transport.base import Placed, Range, TransportCounters
from pyslash.transport.clients import Clients
from pyslash.units import ArenaOffset


class TcpTransport:
    """One connection a peer, under one query's token."""

    name = "tcp"

    def __init__(self, query: bytes, token: bytes, timeout_seconds: float = 30) -> None:
        """`timeout_seconds` bounds each read as a whole."""
        self.counters = TransportCounters()
        self._clients = Clients(query, token, timeout_seconds)

    def read(self, peer: AgentDescriptor, block_offset: ArenaOffset, ranges: list[Range]) -> list[Any]:
        """Copies out of the stream: see `Transport.read`."""
        buffers = self._client(peer).read(block_offset, ranges) if ranges else []
        self.counters.add(sum(length for _, length in ranges))
        return buffers

    def bring(self, peer: AgentDescriptor, blocks: Sequence[Placed]) -> None:
        """One stream, from the socket into the memory: see `Transport.bring`."""
        wanted = [
            Wanted(at, ranges, [memory.view(place + offset, length) for offset, length in ranges])
            for at, ranges, place, memory in blocks
        ]
        self._client(peer).read_into(wanted)
        self.counters.add(sum(block.size for block in blocks))

    def write(self, peer: AgentDescriptor, reserved_offset: ArenaOffset, data: Any) -> None:
        """One stream: see `Transport.write`."""
        self._client(peer).write(reserved_offset, data)
        self.counters.add_write(memoryview(data).nbytes)

    def close(self) -> None:
        """Ends the connections."""
        self._clients.close()

    def _client(self, peer: AgentDescriptor) -> AgentClient:
        return self._clients.of(peer, "tcp" if peer.port else "unix")
