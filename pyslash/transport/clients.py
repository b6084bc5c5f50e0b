"""The control-plane clients of a transport: one for each peer, created when it is first needed."""

from __future__ import annotations

from pyslash.protocol.caller import Via
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.transport.connections import Connections


class Clients:
    """Clients under one query's token. Safe to share between threads."""

    def __init__(self, query: bytes, token: bytes, timeout_seconds: float) -> None:
        """Nothing is connected yet; `timeout_seconds` bounds each call."""
        self._query, self._token, self._timeout = query, token, timeout_seconds
        self._clients = Connections[AgentDescriptor, AgentClient]()

    def of(self, peer: AgentDescriptor, via: Via) -> AgentClient:
        """The client of a peer; `via` holds for the first call."""
        return self._clients.of(
            peer, lambda: AgentClient(peer, self._query, self._token, via=via, timeout_seconds=self._timeout)
        )

    def close(self) -> None:
        """Ends the connections."""
        self._clients.close()
