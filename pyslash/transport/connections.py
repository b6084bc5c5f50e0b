"""Connections to peers, for as long as somebody uses them: executors come and go, and the dead send no word."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

# Longer than any call takes. A peer that is used again is connected again.
_MOST_IDLE_SECONDS = 600.0


class Closing(Protocol):
    """What can be closed."""

    def close(self) -> None:
        """End it."""


Peer = TypeVar("Peer")
Connection = TypeVar("Connection", bound=Closing)


class Connections(Generic[Peer, Connection]):
    """By peer. Safe to share between threads.

    When another peer comes, connections that nobody has asked for in ten minutes are closed.
    """

    def __init__(self) -> None:
        """There is none yet."""
        self._lock = threading.Lock()
        self._kept: dict[Peer, tuple[float, Connection]] = {}

    def of(self, peer: Peer, make: Callable[[], Connection]) -> Connection:
        """The connection to a peer, which is made if there is none."""
        now, idle = time.monotonic(), list[Connection]()
        with self._lock:
            if peer in self._kept:
                _, found = self._kept[peer]
            else:
                found = make()
                for other in [one for one, (used, _) in self._kept.items() if used < now - _MOST_IDLE_SECONDS]:
                    idle.append(self._kept.pop(other)[1])
            self._kept[peer] = now, found
        for one in idle:
            one.close()
        return found

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            kept, self._kept = list(self._kept.values()), {}
        for _, one in kept:
            one.close()
