"""Listening sockets of an agent, and bounds on what strangers can make it hold.

Each socket has its own limit of connections, so that TCP, which anybody on the network can reach, never starves the
Unix socket. A client has `GREETING_SECONDS` to prove itself; until then the agent reads 96 bytes from it. When the
limit is reached, a new connection ends the oldest one that has not proved itself, or else the one that was idle for
longest. A connection that the system has no thread for is refused, and may come again; the listener goes on, for the
agent is not replaced while it lives.
"""

from __future__ import annotations

import logging
import resource
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pyslash.errors import SlashError
from pyslash.protocol import wire
from pyslash.protocol.wire import Caller, Channel

GREETING_SECONDS = 30.0
"""As long as a caller waits by default: all tasks of a stage may greet at once, and the host may be busy."""
IDLE_SECONDS = 300.0
FRAME_SECONDS = 60.0
"""A frame of a request that has begun must be there within that."""
_MOST = 1024
_FEWEST = 8
# Descriptors for the arena, files of checkpoints and spills, devices, and connections to other agents.
_KEPT_BACK = 96
_log = logging.getLogger(__name__)

Greeter = Callable[[socket.socket, float], tuple[Channel, Caller]]
Answerer = Callable[[Channel, Caller, float], bool]
"""Reads one request by a deadline, and answers it; False ends the connection."""


def connection_limit() -> int:
    """The limit of connections of each of the two sockets, by the descriptors that this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST
    return max(_FEWEST, min(_MOST, (soft - _KEPT_BACK) // 2))


def raise_descriptor_limit() -> None:
    """As many descriptors as the system lets this process open, up to what all its connections need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * _MOST + _KEPT_BACK
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


@dataclass(eq=False)
class _Connection:
    """One that has been accepted. `channel`: it has proved itself; `busy`: it is being answered."""

    socket: socket.socket
    since: float = field(default_factory=time.monotonic)
    channel: Channel | None = None
    busy: bool = False


class Listener(threading.Thread):
    """Accepts connections, and serves each in its own thread until it ends or has been idle for too long."""

    def __init__(self, bound: socket.socket, most: int, greeter: Greeter, answerer: Answerer) -> None:
        """Over a socket that listens; not started yet."""
        super().__init__(name=f"listener {bound.family.name}", daemon=True)
        self._bound, self._most = bound, most
        self._greeter, self._answerer = greeter, answerer
        self._lock = threading.Lock()
        self._open: dict[_Connection, None] = {}  # in the order of their arrival
        self._ended = False

    @property
    def connections(self) -> int:
        """The number of open connections."""
        with self._lock:
            return len(self._open)

    def start(self) -> None:
        """Begins to accept.

        Raises:
            RuntimeError: the system has no thread for that. Whoever comes does not wait for one: the socket is closed.
        """
        try:
            super().start()
        except RuntimeError:
            wire.end(self._bound)
            raise

    def run(self) -> None:
        """Until `close`."""
        while not self._ended:
            try:
                accepted, _ = self._bound.accept()
            except OSError as error:
                if self._ended:
                    return
                _log.warning("%s: %s", self.name, error)
                time.sleep(0.05)
                continue
            try:
                self._admit(_Connection(accepted))
            except Exception:
                _log.exception("%s: a connection is not served", self.name)
                wire.end(accepted)

    def retire(self) -> None:
        """Takes no more connections; those that there are go on."""
        self._ended = True
        wire.end(self._bound)

    def close(self) -> None:
        """Takes no more connections, and ends those that there are."""
        self.retire()
        with self._lock:
            for connection in self._open:
                wire.end(connection.socket)

    def _admit(self, connection: _Connection) -> None:
        with self._lock:
            if len(self._open) >= self._most:
                victim = self._dispensable()
                wire.end((victim or connection).socket)
                if victim is None:
                    return
                del self._open[victim]
            self._open[connection] = None
        try:
            threading.Thread(target=self._serve, args=(connection,), name="connection", daemon=True).start()
        except RuntimeError as error:  # a limit of pids or of memory
            _log.warning("%s: a connection is refused: %s", self.name, error)
            with self._lock:
                self._open.pop(connection, None)
            wire.refuse(connection.socket)

    def _dispensable(self) -> _Connection | None:
        for connection in self._open:
            if connection.channel is None:
                return connection
        idle = [one for one in self._open if one.channel is not None and not one.busy]
        return min(idle, key=lambda one: one.since, default=None)

    def _serve(self, connection: _Connection) -> None:
        try:
            if connection.socket.family != socket.AF_UNIX:
                connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel, caller = self._greeter(connection.socket, time.monotonic() + GREETING_SECONDS)
            connection.channel, connection.since = channel, time.monotonic()
            while channel.wait(IDLE_SECONDS):
                with self._lock:
                    if connection not in self._open:
                        return
                    connection.busy = True
                if not self._answerer(channel, caller, time.monotonic() + FRAME_SECONDS):
                    return
                with self._lock:
                    connection.busy, connection.since = False, time.monotonic()
        except (SlashError, OSError) as error:
            if not isinstance(error, wire.ConnectionEndedError):
                _log.warning("%s: a connection ends: %s", self.name, error or type(error).__name__)
        except Exception:
            _log.exception("%s: a connection ends", self.name)
        finally:
            with self._lock:
                self._open.pop(connection, None)
            wire.end(connection.socket)
