"""Transport inside a host: the peer's arena mapped through /proc/PID/fd, and views into it without a copy."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from pyslash._native import Arena
from pyslash.errors import StaleIncarnationError
from pyslash.protocol import process
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.transport.base import Placed, Range, TransportCounters
from pyslash.transport.clients import Clients
from pyslash.transport.reserved import write_all
from pyslash.units import ArenaOffset

# So often it is looked at whether mapped agents still live: what they held stays in memory for as long.
_LOOK_SECONDS = 10.0


class ShmTransport:
    """Maps each peer once; a mapping goes when its agent has gone and another one is used."""

    name = "shm"

    def __init__(self, query: bytes, token: bytes, timeout_seconds: float = 30) -> None:
        """Under one query's token. Nothing is mapped or connected yet; `timeout_seconds` bounds each write."""
        self.counters = TransportCounters()
        self._lock = threading.Lock()
        self._arenas: dict[AgentDescriptor, Any] = {}
        self._looked = time.monotonic()
        self._clients = Clients(query, token, timeout_seconds)

    def unreachable(self, peer: AgentDescriptor) -> str | None:
        """Why the peer's arena cannot be mapped from here; None if it can."""
        if peer.boot_id != process.boot_id():
            return f"{peer} is on another host"
        try:
            self._arena(peer)
        except (OSError, StaleIncarnationError) as error:
            return f"the arena of {peer} cannot be mapped: {error}"
        return None

    def read(self, peer: AgentDescriptor, block_offset: ArenaOffset, ranges: list[Range]) -> list[Any]:
        """Views into the peer's memory: see `Transport.read`."""
        arena = self._arena(peer)
        views = [arena.view(block_offset + offset, length) for offset, length in ranges]
        self.counters.add(sum(length for _, length in ranges))
        return views

    def bring(self, peer: AgentDescriptor, blocks: Sequence[Placed]) -> None:
        """A copy of each range: see `Transport.bring`."""
        arena = self._arena(peer)
        for at, ranges, place, memory in blocks:
            for offset, length in ranges:
                memory.write(arena.view(at + offset, length), place + offset)
        self.counters.add(sum(block.size for block in blocks))

    def write(self, peer: AgentDescriptor, reserved_offset: ArenaOffset, data: Any) -> None:
        """One copy, into room that the agent has reserved: see `Transport.write`."""
        self._arena(peer)
        with self._clients.of(peer, "unix").writable(reserved_offset, memoryview(data).nbytes):
            handle = _open(peer)
            try:
                self.counters.add_write(write_all(handle, data, reserved_offset))
            finally:
                os.close(handle)

    def close(self) -> None:
        """Forgets the mappings, each of which goes with the last view into it, and ends the connections."""
        with self._lock:
            self._arenas.clear()
        self._clients.close()

    def _arena(self, peer: AgentDescriptor) -> Any:
        # A mapping outlives its agent, and would go on to show what it held; no other transport could.
        if not process.is_alive(peer.pid, peer.start_time):
            raise StaleIncarnationError(f"{peer} is gone, and its arena with it")
        with self._lock:
            arena = self._arenas.get(peer)
            if arena is None or time.monotonic() - self._looked >= _LOOK_SECONDS:
                self._forget_the_gone()
            if arena is None:
                arena = self._arenas[peer] = _attach(peer)
            return arena

    def _forget_the_gone(self) -> None:
        self._looked = time.monotonic()
        self._arenas = {
            mapped: kept for mapped, kept in self._arenas.items() if process.is_alive(mapped.pid, mapped.start_time)
        }


def _open(peer: AgentDescriptor) -> int:
    try:
        return os.open(peer.arena_path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise StaleIncarnationError(f"{peer} holds no arena at {peer.arena_path}") from None


def _attach(peer: AgentDescriptor) -> Any:
    handle = _open(peer)
    try:
        return Arena.attach(handle, peer.incarnation_bytes)
    finally:
        os.close(handle)
