"""Transport between hosts without RDMA: sealed frames over TCP, or the Unix socket of an agent that has no port."""

from __future__ import annotations

import threading
from typing import Any

from pyslash.agent.client import AgentClient, Via
from pyslash.agent.descriptor import AgentDescriptor
from pyslash.transport.base import Range, TransportCounters


class TcpTransport:
    """One connection a peer, under one query's token."""

    name = "tcp"

    def __init__(self, query: bytes, token: bytes, timeout_seconds: float = 30) -> None:
        """`timeout_seconds` bounds each read as a whole."""
        self.counters = TransportCounters()
        self._query, self._token, self._timeout = query, token, timeout_seconds
        self._lock = threading.Lock()
        self._clients: dict[AgentDescriptor, AgentClient] = {}

    def read(self, peer: AgentDescriptor, block_offset: int, ranges: list[Range]) -> list[Any]:
        """Copies out of the stream: see `Transport.read`."""
        buffers = self._client(peer).read(block_offset, ranges) if ranges else []
        self.counters.add(sum(length for _, length in ranges))
        return buffers

    def write(self, peer: AgentDescriptor, reserved_offset: int, data: Any) -> None:
        """One stream: see `Transport.write`."""
        self._client(peer).write(reserved_offset, data)
        self.counters.add_write(memoryview(data).nbytes)

    def close(self) -> None:
        """Ends the connections."""
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def _client(self, peer: AgentDescriptor) -> AgentClient:
        with self._lock:
            if peer not in self._clients:
                via: Via = "tcp" if peer.port else "unix"
                self._clients[peer] = AgentClient(
                    peer, self._query, self._token, via=via, timeout_seconds=self._timeout
                )
            return self._clients[peer]
