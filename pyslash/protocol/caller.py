"""Calls to an agent: connections that are kept, deadlines, and each failure as an error of `pyslash.errors`."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, Self

from pyslash import errors
from pyslash.protocol import process, wire
from pyslash.protocol.codec import body
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Request, Reserve
from pyslash.protocol.token import directory_grant, request_grant
from pyslash.protocol.wire import Channel, Kind

Via = Literal["unix", "tcp"]
# The agent ends a connection that is idle for five minutes; long before that it is not used again.
_MOST_IDLE_SECONDS = 60.0
_PAUSE_SECONDS = 0.05


class AgentCaller:
    """Whoever calls one agent for one query. Safe to share between threads: each call has a connection to itself.

    Every call may raise AgentTimeoutError (no answer within `timeout_seconds`), AgentUnavailableError (nobody listens:
    the agent is gone), UnauthenticatedError (wrong token, or another's agent), ForbiddenError (the token is not for
    that), StaleIncarnationError (another agent listens there now) and InvalidRequestError; each message names the agent
    and what was asked of it.
    """

    def __init__(
        self,
        descriptor: AgentDescriptor,
        query: bytes,
        token: bytes,
        *,
        via: Via | None = None,
        timeout_seconds: float = 30,
        secret: bytes | None = None,
    ) -> None:
        """For a 16-byte query id and its token (`token.query_token`). Connects with the first call.

        `via` is the Unix socket where the agent shares this host's file system, TCP elsewhere, unless given. `secret`,
        the application's, is for calls that need a grant: they name a directory, or reserve room for a replica.
        """
        if via is None:
            is_here = descriptor.boot_id == process.boot_id() and os.path.exists(descriptor.socket)
            via = "unix" if is_here or not descriptor.port else "tcp"
        self.descriptor = descriptor
        self._via = via
        self._timeout = timeout_seconds
        self._query, self._token, self._secret = query, token, secret
        self._lock = threading.Lock()
        self._idle: list[tuple[float, Channel]] = []
        self._closed = False

    def __repr__(self) -> str:
        """Without the token."""
        return f"{type(self).__name__}({self.descriptor}, via={self._via!r})"

    def __enter__(self) -> Self:
        """Closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections; one that a call uses ends with that call."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, channel in idle:
            channel.close()

    def act(self, name: str, request: Request, timeout_seconds: float | None = None) -> dict[str, Any]:
        """Calls any action, and returns the answer's fields. Prefer a method of `AgentClient` where there is one."""
        with self.called(name, request, timeout_seconds) as (channel, until):
            return result(channel, until)

    @contextmanager
    def called(
        self, name: str, request: Request, timeout_seconds: float | None, what: str = ""
    ) -> Iterator[tuple[Channel, float]]:
        """A connection over which a request was sent, and the deadline. Every failure is one of pyslash's errors."""
        seconds = timeout_seconds or self._timeout
        deadline = time.monotonic() + seconds
        asked = body(request)
        call = f"{name} {self._grant(request, asked)}\n".encode() + asked
        where = f"{self.descriptor} via {self._via}: {name}" + (f" {what}" if what else "")
        channel = None
        try:
            channel = self._sent(call, deadline)
            yield channel, deadline
        except _RefusedError as refused:
            self._keep(channel)
            raise refused.kind(f"{where}: {refused}") from None
        except BaseException as error:
            if channel is not None:
                channel.close()
            if isinstance(error, TimeoutError):
                raise errors.AgentTimeoutError(f"{where}: no answer within {seconds:g} s") from None
            if isinstance(error, (OSError, wire.ConnectionEndedError)):
                raise errors.AgentUnavailableError(
                    f"{where}: no process listens there; is the agent or its host gone? ({error})"
                ) from None
            if isinstance(error, (errors.UnauthenticatedError, errors.AgentBusyError, errors.MessageTooLongError)):
                raise type(error)(f"{where}: {error}") from None
            raise
        else:
            self._keep(channel)

    def _grant(self, request: Request, asked: bytes) -> str:
        if self._secret is None:
            return ""
        if isinstance(request, Reserve):
            return request_grant(self._secret, self._query, asked)
        directory = getattr(request, "directory", "")
        return directory_grant(self._secret, self._query, directory) if directory else ""

    def _sent(self, call: bytes, deadline: float) -> Channel:
        while (channel := self._take()) is not None:
            try:
                channel.send(Kind.CALL, call, deadline)
                return channel
            except (TimeoutError, errors.MessageTooLongError):
                channel.close()
                raise
            except OSError:
                channel.close()  # the agent has ended it meanwhile, and has read nothing of this
        channel = self._connected(deadline)
        try:
            channel.send(Kind.CALL, call, deadline)
        except BaseException:
            channel.close()
            raise
        return channel

    def _take(self) -> Channel | None:
        """A connection of an earlier call that the agent has not ended."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                since, channel = self._idle.pop()
            if time.monotonic() - since < _MOST_IDLE_SECONDS and not channel.wait(0):
                return channel
            channel.close()

    def _keep(self, channel: Channel | None) -> None:
        with self._lock:
            if channel is not None and not self._closed:
                self._idle.append((time.monotonic(), channel))
                return
        if channel is not None:
            channel.close()

    def _connected(self, deadline: float) -> Channel:
        """A new connection. It is tried again until the deadline where the agent has no thread for it at this moment,
        or lives without its socket, which it then puts back (`agent.process.presence`).
        """
        while True:
            try:
                return self._greeted(deadline)
            except (errors.AgentBusyError, FileNotFoundError) as error:
                agent = self.descriptor
                passes = isinstance(error, errors.AgentBusyError) or process.is_alive(agent.pid, agent.start_time)
                if not passes or deadline - time.monotonic() <= _PAUSE_SECONDS:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def _greeted(self, deadline: float) -> Channel:
        seconds = max(0.001, deadline - time.monotonic())
        if self._via == "unix":
            connection = wire.connect_unix(self.descriptor.socket, seconds)
        else:
            try:
                connection = socket.create_connection((self.descriptor.host, self.descriptor.port), seconds)
            except UnicodeError as error:
                raise OSError(f"{self.descriptor.host!r} is no name of a host: {error}") from None
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            channel, incarnation = wire.greet(connection, self._query, self._token, deadline)
            if incarnation != self.descriptor.incarnation_bytes:
                raise errors.StaleIncarnationError(
                    f"{self.descriptor} is gone: incarnation {incarnation.hex()[:8]} listens there now"
                )
        except BaseException:
            connection.close()
            raise
        return channel


class _RefusedError(Exception):
    """The agent's own words, and the class that it named."""

    def __init__(self, kind: type[errors.SlashError], message: str) -> None:
        super().__init__(message)
        self.kind = kind


def result(channel: Channel, deadline: float) -> dict[str, Any]:
    """The fields of an answer.

    Raises:
        _RefusedError: the agent has refused.
        Otherwise: as `Channel.receive`.
    """
    kind, answer = channel.receive(deadline)
    parts = []
    while kind is Kind.PART:
        parts.append(answer)
        kind, answer = channel.receive(deadline)
    if kind is Kind.ERROR:
        name, _, message = answer.decode().partition("\n")
        raise _RefusedError(errors.class_of(name) or errors.AgentError, message)
    if kind is not Kind.RESULT:
        raise errors.AgentError(f"an answer of kind {kind.name} where a result was expected")
    fields: dict[str, Any] = json.loads(b"".join([*parts, answer]))
    return fields
