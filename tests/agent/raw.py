"""An agent's wire without the client: for what a client would never send."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyslash.protocol import wire
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.wire import Channel
from tests.agent.blocks import QUERY


def soon() -> float:
    """A deadline."""
    return time.monotonic() + 10


def connected(agent: AgentDescriptor, via: str = "tcp") -> socket.socket:
    """A connection on which nothing has been said."""
    if via == "unix":
        return wire.connect_unix(agent.socket, 10)
    return socket.create_connection((agent.host, agent.port), 10)


@contextmanager
def opened(agent: AgentDescriptor, token: bytes, via: str = "tcp", query: bytes = QUERY) -> Iterator[Channel]:
    """A connection on which both sides have proved themselves."""
    with connected(agent, via) as connection:
        yield wire.greet(connection, query, token, soon())[0]
