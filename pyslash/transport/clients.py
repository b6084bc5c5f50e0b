"""The control-plane clients of a transport: one for each peer, created when it is first needed."""

from __future__ import annotations

import threading

from pyslash.protocol.caller import Via
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor


class Clients:
    """Clients under one query's token. Safe to share between threads."""

    def __init__(self, query: bytes, token: bytes, timeout_seconds: float) -> None:
        """Nothing is connected yet; `timeout_seconds` bounds each call."""
        self._query, self._token, self._timeout = query, token, timeout_seconds
        self._lock = threading.Lock()
        self._clients: dict[AgentDescriptor, AgentClient] = {}

    def of(self, peer: AgentDescriptor, via: Via) -> AgentClient:
        """The client of a peer; `via` holds for the first call."""
        with self._lock:
            if peer not in self._clients:
                self._clients[peer] = AgentClient(
                    peer, self._query, self._token, via=via, timeout_seconds=self._timeout
                )
            return self._clients[peer]

    def close(self) -> None:
        """Ends the connections."""
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()
