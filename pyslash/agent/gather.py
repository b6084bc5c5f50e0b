"""Brings blocks of other agents to a task of this host: into a landing, a file in memory that the task maps.

A landing belongs to one connection, and is gone with it, so nothing is left behind when a task, its executor or its
driver ends in the middle. What is not brought takes no memory.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyslash._native import Arena
from pyslash.errors import AgentError, InvalidRequestError, UnauthenticatedError
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Gather, Land
from pyslash.transport import choose_transport
from pyslash.transport.reserved import write_all

# What an arena has before its first block, and may lose to alignment.
_TABLES_BYTES = 2 << 20


class Landing:
    """Room for blocks: the bytes from `start` on of the file `fd`, which begins as an arena does."""

    def __init__(self, fd: int, start: int, request: Gather, query: bytes, token: bytes) -> None:
        """To be read under a query's token."""
        self.fd, self.start = fd, start
        self._size, self._timeout = request.bytes, request.timeout_seconds
        self._query, self._token = query, token

    def land(self, request: Land) -> dict[str, Any]:
        """Brings ranges of one agent's blocks: `transport`, by which, and how many `bytes`.

        Raises:
            InvalidRequestError: the peer's descriptor is none, a range leaves the landing, or there is no such block.
            TransportUnavailableError: the transport that is required cannot be used.
            StaleIncarnationError, AgentError: the peer is gone, or does not answer; a subclass says which.
        """
        try:
            peer = AgentDescriptor.from_json(request.peer)
        except ValueError as error:
            raise InvalidRequestError(f"blocks of what is no agent: {error}") from None
        for _, place, ranges in request.blocks:
            for offset, length in ranges:
                if place + offset + length > self._size:
                    raise InvalidRequestError(
                        f"range [{offset}, {offset + length}) at {place} leaves the landing of {self._size} bytes"
                    )
        used, size = "", 0
        for at, place, ranges in request.blocks:
            # A block beyond the arena is on the agent's disk, and only the agent itself can serve it.
            mode = "tcp" if at >= peer.arena_bytes else request.transport
            try:
                transport = choose_transport(peer, mode, self._query, self._token, self._timeout)
                buffers = transport.read(peer, at, [(offset, length) for offset, length in ranges])
            except UnauthenticatedError as error:
                raise AgentError(str(error)) from None  # the peer's failure, not that of our caller
            used = transport.name
            for (offset, _), buffer in zip(ranges, buffers, strict=True):
                size += self._write(buffer, place + offset)
        return {"transport": used, "bytes": size}

    def _write(self, data: Any, at: int) -> int:
        try:
            return write_all(self.fd, data, self.start + at)
        except OSError as error:
            raise AgentError(
                f"this host has no memory for {memoryview(data).nbytes} bytes of a block: {error}"
            ) from None


@contextmanager
def landing(request: Gather, incarnation: bytes, query: bytes, token: bytes) -> Iterator[Landing]:
    """An empty landing in an arena of this incarnation; its memory goes with the last process that maps it."""
    fd = os.memfd_create("pyslash-landing", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        arena = Arena.create(fd, request.bytes + _TABLES_BYTES, incarnation)
        start = arena.allocate(request.bytes, query, 0)
        arena.close()
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        yield Landing(fd, start, request, query, token)
    finally:
        os.close(fd)
