"""The agent's side of the verbs transport: it registers its arena and accepts connections; reads need nothing from it.

For each query that connects there is one protection domain, with the whole arena registered in it for remote reading
and nothing else. A range that a peer may write is registered by itself, from `expose` to `conceal`. Keys are public
(those of Soft-RoCE can be guessed): what protects a query is its domain, the rights of each key, and the CRCs of every
block.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from pyslash._native import Arena
from pyslash.errors import InvalidRequestError, TransportUnavailableError
from pyslash.protocol.messages import Conceal, Connect, Disconnect, Expose, Renew
from pyslash.rdma.completions import Completions
from pyslash.rdma.device import Device, explained
from pyslash.rdma.port import Port
from pyslash.rdma.queue_pair import QueuePair
from pyslash.transport.reserved import reserved_block

LEASE_SECONDS = 600.0
MOST_PAIRS = 4096

# Of madvise(2), from Linux 5.14 on.
_MADV_POPULATE_WRITE = 23

_log = logging.getLogger(__name__)


@dataclass
class _Pair:
    pair: QueuePair
    expires: float


@dataclass
class _Domain:
    """What one query has on the device."""

    domain: Any
    completions: Completions
    region: Any  # the arena as the device has it
    pairs: dict[int, _Pair] = field(default_factory=dict)
    exposed: dict[int, Any] = field(default_factory=dict)


class VerbsEndpoint:
    """Opens the device with the first connection. Every method takes the one lock."""

    def __init__(self, arena: Arena, port: Port | None, reason: str = "", clock: Callable[[], float] = time.monotonic):
        """`port` is None if there is no device; peers are then told the `reason`."""
        memory = pa.py_buffer(arena.view(0, arena.size))
        self._arena, self._address, self._size = arena, memory.address, memory.size
        self._memory = memory
        self._port, self._reason, self._clock = port, reason, clock
        self._lock = threading.Lock()
        self._device: Device | None = None
        self._domains: dict[bytes, _Domain] = {}

    def connect(self, query: bytes, request: Connect, writes: bool) -> dict[str, Any]:
        """A queue pair for a peer's: this end, the arena's key and address, and the seconds until its lease ends.

        `writes`: the peer may also write what is exposed to it.

        Raises:
            TransportUnavailableError: no device here, or it refuses; the message says why.
            InvalidRequestError: more pairs than an agent has any use for.
        """
        if self._port is not None and query not in self._domains:
            _populate(self._address, self._size)
        with self._lock:
            self._end_late_pairs()
            if sum(len(domain.pairs) for domain in self._domains.values()) >= MOST_PAIRS:
                raise InvalidRequestError(f"this agent has {MOST_PAIRS} verbs connections and takes no more")
            device = self._opened()
            domain = self._domains.get(query) or self._new_domain(device, query)
            pair = QueuePair(device, domain.domain, domain.completions)
            try:
                # Writing needs a key that allows it, too: see `expose`.
                pair.connect(request, "IBV_ACCESS_REMOTE_READ", *(["IBV_ACCESS_REMOTE_WRITE"] if writes else []))
            except TransportUnavailableError:
                pair.close()
                raise
            domain.pairs[pair.endpoint.qpn] = _Pair(pair, self._clock() + LEASE_SECONDS)
            return {
                "endpoint": asdict(pair.endpoint),
                "rkey": int(domain.region.rkey),
                "address": self._address,
                "length": self._size,
                "lease_seconds": LEASE_SECONDS,
            }

    def renew(self, query: bytes, request: Renew) -> dict[str, Any]:
        """Keeps a pair for another lease.

        Raises:
            InvalidRequestError: the query has no such pair (any more): connect again.
        """
        with self._lock:
            domain = self._domains.get(query)
            pair = None if domain is None else domain.pairs.get(request.qpn)
            if pair is None:
                raise InvalidRequestError(f"this query has no verbs connection {request.qpn}; its lease may have ended")
            pair.expires = self._clock() + LEASE_SECONDS
            return {"lease_seconds": LEASE_SECONDS}

    def disconnect(self, query: bytes, request: Disconnect) -> dict[str, Any]:
        """Ends a pair, and the query's domain with its last pair. Does nothing if there is no such pair."""
        with self._lock:
            domain = self._domains.get(query)
            pair = None if domain is None else domain.pairs.pop(request.qpn, None)
            if domain is not None and pair is not None:
                pair.pair.close()
                if not domain.pairs:
                    self._end(query)
            return {"ended": pair is not None}

    def expose(self, query: bytes, request: Expose) -> dict[str, Any]:
        """A key that allows to write a reserved range, until `conceal`.

        Raises:
            InvalidRequestError: the range is not reserved, or the query is not connected.
        """
        reserved_block(self._arena, os.getpid(), query, request.offset, request.length)
        with self._lock:
            domain = self._domains.get(query)
            if domain is None:
                raise InvalidRequestError("this query has no verbs connection to write through")
            key = domain.exposed.pop(request.offset, None)
            if key is not None:
                key.close()
            access = ("IBV_ACCESS_LOCAL_WRITE", "IBV_ACCESS_REMOTE_WRITE")
            address = self._address + request.offset
            key = self._opened().register(domain.domain, address, request.length, *access)
            domain.exposed[request.offset] = key
            return {"rkey": int(key.rkey)}

    def conceal(self, query: bytes, request: Conceal) -> dict[str, Any]:
        """Ends the right to write; nothing if there is none."""
        with self._lock:
            domain = self._domains.get(query)
            key = None if domain is None else domain.exposed.pop(request.offset, None)
            if key is not None:
                key.close()
            return {"ended": key is not None}

    def drop(self, query: bytes) -> None:
        """Ends all that a query has on the device."""
        with self._lock:
            self._end(query)

    def end_expired(self) -> None:
        """Ends the pairs that were not renewed in time, and the domains of which none is left."""
        with self._lock:
            self._end_late_pairs()

    def figures(self) -> dict[str, int]:
        """How many queue pairs and registrations there are."""
        with self._lock:
            return {
                "verbs_pairs": sum(len(domain.pairs) for domain in self._domains.values()),
                "verbs_registrations": sum(1 + len(domain.exposed) for domain in self._domains.values()),
            }

    def _opened(self) -> Device:
        if self._device is None:
            if self._port is None:
                raise TransportUnavailableError(f"this agent's host cannot do verbs: {self._reason}")
            self._device = Device(self._port)
            _log.info("opened %s", self._port)
        return self._device

    def _new_domain(self, device: Device, query: bytes) -> _Domain:
        domain = device.protection_domain()
        with explained("the arena cannot be opened to verbs"):
            made = _Domain(
                domain,
                device.completion_queue(),
                device.register(domain, self._address, self._size, "IBV_ACCESS_REMOTE_READ"),
            )
        self._domains[query] = made
        _log.info("query %s: registered the arena of %d bytes", query.hex()[:8], self._size)
        return made

    def _end_late_pairs(self) -> None:
        now = self._clock()
        for query, domain in list(self._domains.items()):
            for qpn, pair in list(domain.pairs.items()):
                if pair.expires < now:
                    domain.pairs.pop(qpn).pair.close()
                    _log.info("query %s: connection %d was not renewed", query.hex()[:8], qpn)
            if not domain.pairs:
                self._end(query)

    def _end(self, query: bytes) -> None:
        domain = self._domains.pop(query, None)
        if domain is not None:
            for pair in domain.pairs.values():
                pair.pair.close()
            for key in domain.exposed.values():
                key.close()
            domain.region.close()
            domain.completions.close()
            domain.domain.close()


def _populate(address: int, length: int) -> None:
    """Have the system provide all pages. Registering does, too, but by pyverbs, which keeps the interpreter's lock.

    Where the kernel does not know how, registering does it.
    """
    ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(length), _MADV_POPULATE_WRITE)
