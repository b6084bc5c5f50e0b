"""Which transport reads from which peer, and why."""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass

from pyslash.errors import TransportUnavailableError
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.transport.base import Transport, TransportCounters
from pyslash.transport.shm import ShmTransport
from pyslash.transport.tcp import TcpTransport
from pyslash.transport.verbs import VerbsTransport

_log = logging.getLogger(__name__)

MODES = ("auto", "shm", "tcp", "verbs")


@dataclass(frozen=True)
class Choice:
    """A transport for one peer, and the reason in words."""

    transport: Transport
    reason: str


class Transports:
    """The transports of one process and query, made once and shared by all its reads."""

    def __init__(self, query: bytes, token: bytes, timeout_seconds: float = 30) -> None:
        """Nothing is mapped or connected yet."""
        self._shm = ShmTransport(query, token, timeout_seconds)
        self._verbs = VerbsTransport(query, token, timeout_seconds)
        self._tcp = TcpTransport(query, token, timeout_seconds)
        self._lock = threading.Lock()
        self._chosen: dict[AgentDescriptor, Choice] = {}

    def choose(self, peer: AgentDescriptor, mode: str = "auto") -> Choice:
        """`auto`: shared memory on one host, verbs where both are on one fabric, TCP elsewhere. Or what `mode` says.

        Raises:
            TransportUnavailableError: the mode requires a transport that cannot be used; the message says why.
        """
        match mode:
            case "auto":
                return self._automatic(peer)
            case "shm":
                if obstacle := self._shm.unreachable(peer):
                    raise TransportUnavailableError(f"spark.slash.transport=shm, but {obstacle}")
                return Choice(self._shm, "spark.slash.transport=shm")
            case "tcp":
                return Choice(self._tcp, "spark.slash.transport=tcp")
            case "verbs":
                if obstacle := self._verbs.unreachable(peer, any_fabric=True):
                    raise TransportUnavailableError(f"spark.slash.transport=verbs, but {obstacle}")
                return Choice(self._verbs, "spark.slash.transport=verbs")
            case _:
                raise TransportUnavailableError(f"spark.slash.transport={mode}: not one of {', '.join(MODES)}")

    def counters(self) -> dict[str, TransportCounters]:
        """What each transport has moved, by its name."""
        return {transport.name: transport.counters for transport in (self._shm, self._verbs, self._tcp)}

    def close(self) -> None:
        """Closes mappings and connections."""
        self._shm.close()
        self._verbs.close()
        self._tcp.close()

    def _automatic(self, peer: AgentDescriptor) -> Choice:
        with self._lock:
            known = self._chosen.get(peer)
        # Memory and verbs are tried again each time, at next to no cost while they work; once it was TCP, it stays TCP.
        if known is not None and known.transport is self._tcp:
            return known
        choice = self._choose(peer)
        with self._lock:
            if known is None or known != choice:
                self._chosen[peer] = choice
                _log.info("%s is read by %s: %s", peer, choice.transport.name, choice.reason)
        return choice

    def _choose(self, peer: AgentDescriptor) -> Choice:
        no_memory = self._shm.unreachable(peer)
        if no_memory is None:
            return Choice(self._shm, f"{peer} shares this host's memory")
        no_verbs = self._verbs.unreachable(peer)
        if no_verbs is None:
            return Choice(self._verbs, f"{no_memory}; both are on the fabric {peer.fabric}")
        return Choice(self._tcp, f"{no_memory}; no verbs: {no_verbs}")


_MOST_IDLE_SECONDS = 600.0
_lock = threading.Lock()
_by_query: dict[tuple[int, bytes, bytes, float], tuple[float, Transports]] = {}
"""By process, query, token and time limit: when they were last asked for, and the transports."""


def choose_transport(
    peer: AgentDescriptor, mode: str, query: bytes, token: bytes, timeout_seconds: float = 30
) -> Transport:
    """The transport for a peer, out of transports that this process keeps for the query: see `Transports.choose`.

    An agent gathers for many merge tasks; its mappings and connections outlive each of them, until nobody has asked for
    them for a while.
    """
    now = time.monotonic()
    with _lock:
        # A forked child must not use its parent's connections, nor end them: the process is part of the name.
        # A query that starts again may have more time, or less, than it had before.
        name = (os.getpid(), query, token, timeout_seconds)
        _, transports = _by_query.get(name) or (now, Transports(query, token, timeout_seconds))
        _by_query[name] = now, transports
        idle = [one for one, (used, _) in _by_query.items() if used < now - _MOST_IDLE_SECONDS]
        ended = [_by_query.pop(one)[1] for one in idle if one[0] == os.getpid()]
    for one in ended:  # may have to wait for a peer
        one.close()
    return transports.choose(peer, mode).transport


def close_transports(query: bytes) -> None:
    """Closes what this process has mapped and connected for a query that has ended here, or begins again."""
    with _lock:
        ended = [_by_query.pop(name)[1] for name in [*_by_query] if name[:2] == (os.getpid(), query)]
    for transports in ended:
        transports.close()
