"""Transport between hosts with RDMA: one-sided READs out of a peer's registered arena, its CPU idle.

A process has one connection to each peer. It keeps the connection for as long as it lives, and renews its lease. After
any error it closes the connection, and the next use opens another. One thread at a time uses a connection.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from pyslash.errors import (
    InvalidRequestError,
    SlashError,
    StaleIncarnationError,
    TransportUnavailableError,
    UnauthenticatedError,
)
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Conceal, Connect, Disconnect, Expose, Renew
from pyslash.rdma.device import Device
from pyslash.rdma.endpoint import Endpoint
from pyslash.rdma.landing import LandingPool
from pyslash.rdma.port import Port, choose_port
from pyslash.rdma.queue_pair import QueuePair
from pyslash.rdma.transfer import Mover, Piece
from pyslash.state.files.block_head import HEADER_BYTES
from pyslash.transport.base import Placed, Range, TransportCounters
from pyslash.transport.connections import Connections
from pyslash.units import ArenaOffset

# The beginning of a block's header (docs/block-format.md): magic, version, head's length, plan, query, incarnation,
# epoch, attempt, offset in the arena, length.
_HEADER = struct.Struct("<QIIQ16s16sqqQQ")
# The beginning of an arena: magic, version, size, incarnation.
_ARENA_HEADER = struct.Struct("<QQQ16s")
_MAGIC = 0x014853414C535950
_ALIGNMENT = 64
_LAST_CALL_SECONDS = 1.0
# Registered memory that one list of READs takes, or one WRITE.
_LIST_BYTES = 32 << 20

_Block = tuple[ArenaOffset, list[Range]]
"""Its offset in the arena, and ranges of it."""


class VerbsTransport:
    """All connections of one process under one query's token."""

    name = "verbs"

    def __init__(
        self,
        query: bytes,
        token: bytes,
        timeout_seconds: float = 30,
        find_port: Callable[[str | None, str | None], Port] = choose_port,
    ) -> None:
        """No device is opened yet. `timeout_seconds` bounds each read and write, connecting included."""
        self.counters = TransportCounters()
        self._query, self._token, self._timeout = query, token, timeout_seconds
        self._find_port = find_port
        self._lock = threading.Lock()
        self._hubs: dict[Port, _Hub] = {}
        self._peers = Connections[AgentDescriptor, _Peer]()

    def unreachable(self, peer: AgentDescriptor, *, any_fabric: bool = False) -> str | None:
        """Why the peer cannot be read by verbs; None if a connection stands, over which a first READ has passed.

        With `any_fabric` a port on another fabric is tried, too: networks can be routed, which no name shows.
        """
        if not peer.fabric:
            return f"{peer} has no RDMA device"
        try:
            port = self._any_port(peer) if any_fabric else self._find_port(peer.fabric, None)
            self._peer(peer, port).connected(time.monotonic() + self._timeout)
        except (StaleIncarnationError, UnauthenticatedError):
            raise  # no other transport would fare better
        except SlashError as error:
            return str(error)
        return None

    def read(self, peer: AgentDescriptor, block_offset: ArenaOffset, ranges: list[Range]) -> list[Any]:
        """Buffers in registered memory: see `Transport.read`.

        Raises:
            RemoteAccessError: the peer's device refuses the access.
            VerbsError: ours fails.
        """
        return self._read(peer, [(block_offset, ranges)])[0] if ranges else []

    def bring(self, peer: AgentDescriptor, blocks: Sequence[Placed]) -> None:
        """One list of READs, and a copy from registered memory: see `Transport.bring`.

        READs cannot go into the places themselves: those would have to be registered, and would then take memory for
        what is not brought, too.

        Raises: as `read`.
        """
        for most in _lists(blocks):
            found = self._read(peer, [(block.offset, block.ranges) for block in most])
            for block, buffers in zip(most, found, strict=True):
                for (offset, _), buffer in zip(block.ranges, buffers, strict=True):
                    block.memory.write(buffer, block.place + offset)

    def _read(self, peer: AgentDescriptor, blocks: Sequence[_Block]) -> list[list[Any]]:
        """The blocks' headers are read behind all ranges: those were read out of blocks that still begin there."""
        for at, ranges in blocks:
            end = max(offset + length for offset, length in ranges)
            if at < 0 or at + max(end, HEADER_BYTES) > peer.arena_bytes:
                raise InvalidRequestError(
                    f"range [{at}, {at + end}) leaves the arena of {peer}, {peer.arena_bytes} bytes"
                )
        found = self._connected_peer(peer).read(blocks, time.monotonic() + self._timeout)
        self.counters.add(sum(length for _, ranges in blocks for _, length in ranges))
        return found

    def write(self, peer: AgentDescriptor, reserved_offset: ArenaOffset, data: Any) -> None:
        """By RDMA WRITE: see `Transport.write`."""
        self._connected_peer(peer).write(reserved_offset, data, time.monotonic() + self._timeout)
        self.counters.add_write(memoryview(data).nbytes)

    def close(self) -> None:
        """Ends the connections and closes the devices."""
        self._peers.close()
        with self._lock:
            hubs, self._hubs = list(self._hubs.values()), {}
        for hub in hubs:
            hub.close()

    def _connected_peer(self, peer: AgentDescriptor) -> _Peer:
        return self._peers.of(peer, lambda: self._made(peer, self._any_port(peer)))

    def _any_port(self, peer: AgentDescriptor) -> Port:
        """On the peer's fabric if there is one; a network that is routed shows in no name."""
        try:
            return self._find_port(peer.fabric, None)
        except TransportUnavailableError:
            return self._find_port(None, None)

    def _peer(self, peer: AgentDescriptor, port: Port) -> _Peer:
        return self._peers.of(peer, lambda: self._made(peer, port))

    def _made(self, peer: AgentDescriptor, port: Port) -> _Peer:
        with self._lock:
            hub = self._hubs.get(port)
            if hub is None:
                hub = self._hubs[port] = _Hub(port)
        client = AgentClient(peer, self._query, self._token, timeout_seconds=self._timeout)
        return _Peer(peer, hub, client, self._query)


class _Hub:
    """A device of this process: context, protection domain, landing memory."""

    def __init__(self, port: Port) -> None:
        self.device = Device(port)
        self.domain = self.device.protection_domain()
        self.landing = LandingPool(self.device, self.domain)

    def close(self) -> None:
        self.landing.close()
        self.device.close()


class _Connection:
    """A queue pair that is connected to an agent's, and what that agent said of its arena."""

    def __init__(self, hub: _Hub, client: AgentClient, deadline: float) -> None:
        device = hub.device
        self._completions = device.completion_queue(device.max_in_flight)
        self._pair = QueuePair(device, hub.domain, self._completions)
        try:
            answer = client.act("connect", Connect(**asdict(self._pair.endpoint)), _until(deadline))
            self.peer = Endpoint(**answer["endpoint"])
            self._pair.connect(self.peer)
        except BaseException:
            self.close()
            raise
        self.address, self.rkey = int(answer["address"]), int(answer["rkey"])
        self.length, self._lease_seconds = int(answer["length"]), float(answer["lease_seconds"])
        self.renewed()
        self.mover = Mover(device, self._pair, self._completions)

    def renewed(self) -> None:
        """The lease has started again; it has to be renewed long before it ends."""
        self.renew_at = time.monotonic() + self._lease_seconds / 3

    def close(self) -> None:
        """Both are gone when this returns: nothing lands in our memory any more."""
        self._pair.close()
        self._completions.close()


class _Peer:
    """One agent, and the connection to it if there is one."""

    def __init__(self, agent: AgentDescriptor, hub: _Hub, client: AgentClient, query: bytes) -> None:
        self._agent, self._hub, self._client, self._query = agent, hub, client, query
        self._name = str(agent)
        self._lock = threading.Lock()
        self._connection: _Connection | None = None
        self._is_closed = False

    def connected(self, deadline: float) -> None:
        """Connects if there is no connection."""
        with self._lock:
            self._use(deadline)

    def read(self, blocks: Sequence[_Block], deadline: float) -> list[list[Any]]:
        """Buffers of the ranges of each block."""
        at, size, moves = 0, 0, []
        for block_offset, ranges in blocks:
            for offset, length in ranges:
                moves.append((at, block_offset + offset, length))
                size += length
                at += -(-length // _ALIGNMENT) * _ALIGNMENT
        headers = range(at, at + HEADER_BYTES * len(blocks), HEADER_BYTES)
        moves += [(place, block_offset, _HEADER.size) for place, (block_offset, _) in zip(headers, blocks, strict=True)]
        lease = self._hub.landing.acquire(headers.stop)
        landing = lease.slab.address
        what = f"{self._name}: READ of {size} bytes"

        def move(connection: _Connection) -> None:
            source = connection.address
            pieces = [Piece(landing + place, source + offset, length) for place, offset, length in moves]
            connection.mover.move("IBV_WR_RDMA_READ", pieces, lease.slab.lkey, connection.rkey, what, deadline)

        self._with_connection(move, deadline)
        for place, (block_offset, ranges) in zip(headers, blocks, strict=True):
            self._check(ctypes.string_at(landing + place, _HEADER.size), block_offset, ranges)
        places = iter(moves)
        return [[lease.buffer(next(places)[0], length) for _, length in ranges] for _, ranges in blocks]

    def write(self, offset: ArenaOffset, data: Any, deadline: float) -> None:
        """Into a range that the agent has reserved."""
        source = memoryview(data).cast("B")
        begin, lease = pa.py_buffer(source).address, self._hub.landing.acquire(min(source.nbytes, _LIST_BYTES))
        what = f"{self._name}: WRITE of {source.nbytes} bytes"

        def move(connection: _Connection) -> None:
            key = int(self._client.act("expose", Expose(offset, source.nbytes), _until(deadline))["rkey"])
            for at in range(0, source.nbytes, _LIST_BYTES):
                piece = Piece(
                    lease.slab.address, connection.address + offset + at, min(_LIST_BYTES, source.nbytes - at)
                )
                ctypes.memmove(piece.local, begin + at, piece.length)
                connection.mover.move("IBV_WR_RDMA_WRITE", [piece], lease.slab.lkey, key, what, deadline)
            # Also the proof that the bytes are in the peer's memory: ending the registration waits for the device.
            self._client.act("conceal", Conceal(offset), _until(deadline))

        self._with_connection(move, deadline)
        lease.release()

    def close(self) -> None:
        """Tells the agent, if it still answers."""
        with self._lock:
            self._is_closed = True
            self._end()
            self._client.close()

    def _with_connection(self, move: Callable[[_Connection], None], deadline: float) -> None:
        with self._lock:
            connection = self._use(deadline)
            try:
                move(connection)
            except BaseException:
                # Before the landing memory can go to anybody else.
                self._end()
                raise

    def _use(self, deadline: float) -> _Connection:
        if self._is_closed:  # and the device with it, or soon
            raise TransportUnavailableError(f"{self._name} is read for a query that has ended here")
        connection = self._connection
        if connection is not None:
            if time.monotonic() < connection.renew_at:
                return connection
            try:
                self._client.act("renew", Renew(connection.peer.qpn), _until(deadline))
                connection.renewed()
            except InvalidRequestError:
                self._end()  # the lease had ended
        if self._connection is None:
            self._connection = _Connection(self._hub, self._client, deadline)
            try:
                self._probe(self._connection, deadline)
            except BaseException:
                self._end()
                raise
        return self._connection

    def _probe(self, connection: _Connection, deadline: float) -> None:
        """The first READ, of the arena's own header: whether packets pass, and whose memory it is."""
        lease = self._hub.landing.acquire(_ARENA_HEADER.size)
        piece = Piece(lease.slab.address, connection.address, _ARENA_HEADER.size)
        what = f"{self._name}: first READ"
        connection.mover.move("IBV_WR_RDMA_READ", [piece], lease.slab.lkey, connection.rkey, what, deadline)
        *_, size, incarnation = _ARENA_HEADER.unpack(lease.buffer(0, _ARENA_HEADER.size))
        if (size, incarnation) != (self._agent.arena_bytes, self._agent.incarnation_bytes):
            raise StaleIncarnationError(f"{self._agent}: another arena is registered there")

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            # If it does not answer it is gone, or will end the lease itself.
            with contextlib.suppress(SlashError):
                self._client.act("disconnect", Disconnect(connection.peer.qpn), _LAST_CALL_SECONDS)

    def _check(self, header: bytes, block_offset: ArenaOffset, ranges: list[Range]) -> None:
        magic, _, _, _, query, incarnation, _, _, offset, length = _HEADER.unpack(header)
        end = max(begin + size for begin, size in ranges)
        found = (magic, query, incarnation, offset)
        if found != (_MAGIC, self._query, self._agent.incarnation_bytes, block_offset):
            raise StaleIncarnationError(f"{self._agent} has no block of this query at {block_offset} any more")
        if end > length:
            raise InvalidRequestError(f"range [.., {end}) leaves the block of {length} bytes at {block_offset}")


def _lists(blocks: Sequence[Placed]) -> Iterator[list[Placed]]:
    """The same bytes in lists of `_LIST_BYTES` at most."""
    some: list[Placed] = []
    left = _LIST_BYTES
    for block in blocks:
        ranges: list[Range] = []
        for start, length in _cut(block.ranges):
            if length > left and (some or ranges):
                yield [*some, block._replace(ranges=ranges)] if ranges else some
                some, ranges, left = [], [], _LIST_BYTES
            ranges.append((start, length))
            left -= length
        if ranges:
            some.append(block._replace(ranges=ranges))
    if some:
        yield some


def _cut(ranges: Sequence[Range]) -> Iterator[Range]:
    for start, length in ranges:
        for at in range(0, length, _LIST_BYTES):
            yield start + at, min(_LIST_BYTES, length - at)


def _until(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())
