"""Which transport reads from which peer, and why."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from pyslash.agent.descriptor import AgentDescriptor
from pyslash.errors import TransportUnavailableError
from pyslash.transport.base import Transport, TransportCounters
from pyslash.transport.shm import ShmTransport
from pyslash.transport.tcp import TcpTransport

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
        self._shm = ShmTransport(query)
        self._tcp = TcpTransport(query, token, timeout_seconds)

    def choose(self, peer: AgentDescriptor, mode: str = "auto") -> Choice:
        """`auto`: shared memory where it can be had, TCP elsewhere. Otherwise what `mode` says.

        Raises:
            TransportUnavailableError: the mode asks for what cannot be had; the message says why.
        """
        match mode:
            case "auto":
                obstacle = self._shm.unreachable(peer)
                if obstacle is None:
                    return Choice(self._shm, f"{peer} shares this host's memory")
                return Choice(self._tcp, obstacle)
            case "shm":
                if obstacle := self._shm.unreachable(peer):
                    raise TransportUnavailableError(f"spark.slash.transport=shm, but {obstacle}")
                return Choice(self._shm, "spark.slash.transport=shm")
            case "tcp":
                return Choice(self._tcp, "spark.slash.transport=tcp")
            case "verbs":
                raise TransportUnavailableError(
                    "spark.slash.transport=verbs: this build has no verbs transport; use auto, shm or tcp"
                )
            case _:
                raise TransportUnavailableError(f"spark.slash.transport={mode}: not one of {', '.join(MODES)}")

    def counters(self) -> dict[str, TransportCounters]:
        """What each transport has moved, by its name."""
        return {self._shm.name: self._shm.counters, self._tcp.name: self._tcp.counters}

    def close(self) -> None:
        """Lets go of mappings and connections."""
        self._shm.close()
        self._tcp.close()


_MOST_QUERIES = 16
_lock = threading.Lock()
_by_query: OrderedDict[tuple[bytes, bytes], Transports] = OrderedDict()


def choose_transport(
    peer: AgentDescriptor, mode: str, query: bytes, token: bytes, timeout_seconds: float = 30
) -> Transport:
    """The transport for a peer, out of transports that this process keeps for the query: see `Transports.choose`.

    A Python worker serves many merge tasks; its mappings and connections outlive each of them.
    """
    with _lock:
        transports = _by_query.pop((query, token), None) or Transports(query, token, timeout_seconds)
        _by_query[query, token] = transports
        if len(_by_query) > _MOST_QUERIES:
            _, oldest = _by_query.popitem(last=False)
            oldest.close()
    return transports.choose(peer, mode).transport
