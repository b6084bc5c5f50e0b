"""The control plane: what callers may do with one `AgentState`, each by the right that it has proved.

Actions (`request` has their bodies): commit, checkpoint, restore, replicate, reserve, seal, promote, resume, room,
discard, release, drop, describe, stats, logs, what `verbs` answers, and four that move bytes. `read` streams ranges of
a block, `write` takes a replica's bytes: the `tcp` transport. `lend` lets a process of this host write them itself: it
owns the room until it says that it is done, or its connection ends. `gather` brings blocks of other agents to a process
of this host, for as long. `wire` has the format of all of this.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyslash.agent.checkpoint import Checkpointer
from pyslash.agent.compaction.compactor import Compactor
from pyslash.agent.gather import landing
from pyslash.agent.listener import Listener, connection_limit
from pyslash.agent.replication.replicate import Replicator
from pyslash.agent.store.spiller import Spiller
from pyslash.agent.store.state import AgentState
from pyslash.agent.verbs import VerbsEndpoint
from pyslash.errors import ForbiddenError, InvalidRequestError, SlashError, UnauthenticatedError
from pyslash.protocol import wire
from pyslash.protocol.codec import parse
from pyslash.protocol.messages import (
    Checkpoint,
    Commit,
    Conceal,
    Connect,
    Discard,
    Disconnect,
    Empty,
    Expose,
    Gather,
    Land,
    Logs,
    MakeRoom,
    Promote,
    Read,
    Release,
    Renew,
    Replicate,
    Request,
    Reserve,
    Restore,
    Resume,
    Seal,
    Write,
)
from pyslash.protocol.token import Right, directory_grant, query_token
from pyslash.protocol.wire import CHUNK_BYTES, Caller, Channel, Kind

_log = logging.getLogger(__name__)

_ANSWER_SECONDS = 60.0
"""A peer that takes no more of an answer for so long has gone, or is as good as gone."""
_BACKLOG = 128

Act = Callable[[Caller, Any], dict[str, Any]]


@dataclass(frozen=True)
class _Action:
    """Who may call it, the form of its request, what it does."""

    right: Right
    form: type[Request]
    act: Act


class AgentServer:
    """Answers once `listen_unix` or `listen_tcp` has been called; both may be."""

    def __init__(
        self,
        secret: bytes,
        state: AgentState,
        compactor: Compactor,
        verbs: VerbsEndpoint,
        log: Path,
    ) -> None:
        """Nobody can call it yet."""
        self._secret = secret
        self._verbs = verbs
        self._state = state
        self._replicator = Replicator(state, secret)
        self._compactor = compactor
        self._log_file = log
        self._listeners: list[Listener] = []
        room, files = Spiller(state), Checkpointer(state)
        read, replicate, drive = Right.READ, Right.REPLICATE, Right.DRIVE
        self._actions: dict[str, _Action] = {
            "commit": _Action(drive, Commit, self._commit),
            "checkpoint": _Action(drive, Checkpoint, lambda by, asked: files.checkpoint(by.query, asked)),
            "restore": _Action(drive, Restore, lambda by, asked: files.restore(by.query, asked)),
            "replicate": _Action(drive, Replicate, lambda by, asked: self._replicator.replicate(by.query, asked)),
            "promote": _Action(drive, Promote, lambda by, asked: state.promote(by.query, asked)),
            "room": _Action(drive, MakeRoom, lambda by, asked: room.make(by.query, asked)),
            "resume": _Action(drive, Resume, lambda by, asked: state.resume(by.query, asked)),
            "release": _Action(drive, Release, self._release),
            "discard": _Action(drive, Discard, lambda by, asked: state.discard(by.query, asked)),
            "drop": _Action(drive, Empty, lambda by, _: self._drop(by.query)),
            "stats": _Action(drive, Empty, lambda *_: self._stats()),
            "logs": _Action(drive, Logs, lambda _, asked: self._logs(asked)),
            "reserve": _Action(replicate, Reserve, lambda by, asked: state.reserve(by.query, asked)),
            "seal": _Action(replicate, Seal, lambda by, asked: state.seal(by.query, asked)),
            "expose": _Action(replicate, Expose, lambda by, asked: verbs.expose(by.query, asked)),
            "conceal": _Action(replicate, Conceal, lambda by, asked: verbs.conceal(by.query, asked)),
            "describe": _Action(read, Empty, lambda by, _: state.describe(by.query)),
            "connect": _Action(
                read, Connect, lambda by, asked: verbs.connect(by.query, asked, by.right >= Right.REPLICATE)
            ),
            "renew": _Action(read, Renew, lambda by, asked: verbs.renew(by.query, asked)),
            "disconnect": _Action(read, Disconnect, lambda by, asked: verbs.disconnect(by.query, asked)),
        }
        self._streams: dict[str, tuple[Right, Callable[[Channel, Caller, bytes], None]]] = {
            "read": (read, self._read),
            "write": (replicate, self._write),
            "lend": (replicate, self._lend),
            "gather": (read, self._gather),
        }

    def listen_unix(self, path: str) -> None:
        """On a Unix socket, for this host."""
        self._start(wire.listen_unix(path, _BACKLOG))

    def listen_tcp(self, host: str) -> int:
        """On a port that the system chooses, for other hosts; the port.

        Raises:
            OSError: the host's name or address is not this one's.
        """
        (family, *_, address), *_ = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.bind(address)
            bound.listen(_BACKLOG)
        except BaseException:
            bound.close()
            raise
        self._start(bound)
        return int(bound.getsockname()[1])

    def close(self) -> None:
        """Ends every connection; calls in progress are not answered."""
        for listener in self._listeners:
            listener.close()

    def _start(self, bound: socket.socket) -> None:
        listener = Listener(bound, connection_limit(), self._welcome, self._answer)
        self._listeners.append(listener)
        listener.start()

    def _welcome(self, connection: socket.socket, deadline: float) -> tuple[Channel, Caller]:
        def token_of(query: bytes, right: Right) -> bytes:
            return query_token(self._secret, query, right)

        return wire.welcome(connection, self._state.incarnation, token_of, deadline)

    def _answer(self, channel: Channel, caller: Caller, call: bytes) -> None:
        """One request in; one answer, or a stream of them, out."""
        called, _, body = call.partition(b"\n")
        name, _, grant = called.decode("ascii", "replace").partition(" ")
        try:
            stream = self._streams.get(name)
            if stream is not None:
                right, act = stream
                self._check_right(caller, name, right)
                act(channel, caller, body)
                return
            answer = self._acted(caller, name, grant, body)
        except (SlashError, OSError) as error:
            if isinstance(error, (OSError, wire.ConnectionEndedError, UnauthenticatedError)):
                raise
            _log.warning("query %s: %s refused: %s", caller.query.hex()[:8], name[:40], error)
            channel.send(Kind.ERROR, f"{type(error).__name__}\n{error}".encode(), _soon())
            return
        channel.send(Kind.RESULT, json.dumps(answer, separators=(",", ":")).encode(), _soon())

    def _acted(self, caller: Caller, name: str, grant: str, body: bytes) -> dict[str, Any]:
        action = self._actions.get(name)
        if action is None:
            raise InvalidRequestError(f"there is no action {name[:40]!r}")
        self._check_right(caller, name, action.right)
        request = parse(action.form, body)
        directory = getattr(request, "directory", "")
        if directory and grant != directory_grant(self._secret, caller.query, directory):
            raise ForbiddenError(f"{name} names the directory {directory}, which this query has no grant for")
        return action.act(caller, request)

    def _check_right(self, caller: Caller, name: str, right: Right) -> None:
        if caller.right < right:
            raise ForbiddenError(f"{name} needs the right to {right.name.lower()}; this token is for {_says(caller)}")

    def _read(self, channel: Channel, caller: Caller, body: bytes) -> None:
        """The ranges in order, in pieces."""
        request = parse(Read, body)
        with self._state.pinned(caller.query, request) as views:
            for view in views:
                whole = memoryview(view).cast("B")
                for at in range(0, whole.nbytes, CHUNK_BYTES):
                    channel.send(Kind.DATA, whole[at : at + CHUNK_BYTES], _soon())
        channel.send(Kind.RESULT, b"{}", _soon())

    def _write(self, channel: Channel, caller: Caller, body: bytes) -> None:
        """Bytes into a range that this agent has reserved, in pieces."""
        request = parse(Write, body)
        with self._state.lending(caller.query, request):
            channel.send(Kind.RESULT, b"{}", _soon())
            pieces = _pieces(channel)
            try:
                self._state.write(request, pieces)
            except InvalidRequestError:
                for _ in pieces:  # the peer listens only when it has said everything
                    pass
                raise
        channel.send(Kind.RESULT, b"{}", _soon())

    def _lend(self, channel: Channel, caller: Caller, body: bytes) -> None:
        """The same range, for a process of this host to write: nobody else's until it is done, or gone."""
        request = parse(Write, body)
        if not channel.is_local:
            raise ForbiddenError("only who shares this host's memory can write into it")
        with self._state.lending(caller.query, request):
            channel.send(Kind.RESULT, b"{}", _soon())
            kind, _ = channel.receive(None)
            if kind is not Kind.DONE:
                raise InvalidRequestError(f"{kind.name} where the end of a write was expected")
            self._state.counted_write(request.length)
        channel.send(Kind.RESULT, b"{}", _soon())

    def _gather(self, channel: Channel, caller: Caller, body: bytes) -> None:
        """Blocks of other agents, where a process of this host maps them until it is done, or gone."""
        if not channel.is_local:
            raise ForbiddenError("only who shares this host's memory can map a landing")
        token = query_token(self._secret, caller.query, Right.READ)
        with landing(parse(Gather, body), self._state.incarnation, caller.query, token) as made:
            answer: dict[str, Any] = {"fd": made.fd, "start": made.start}
            while True:
                channel.send(Kind.RESULT, json.dumps(answer).encode(), _soon())
                kind, call = channel.receive(None)
                if kind is Kind.DONE:
                    break
                name, _, asked = call.partition(b"\n")
                if kind is not Kind.CALL or name.strip() != b"land":
                    raise InvalidRequestError(f"{kind.name} {name[:40]!r} where `land` or the end was expected")
                answer = made.land(parse(Land, asked))
                self._state.counted_gathered(answer["bytes"])
        channel.send(Kind.RESULT, b"{}", _soon())

    def _commit(self, caller: Caller, request: Commit) -> dict[str, Any]:
        answer = self._state.commit(caller.query, request)
        self._compactor.look()
        return answer

    def _release(self, caller: Caller, request: Release) -> dict[str, Any]:
        answer = self._state.release(caller.query, request)
        self._compactor.look()
        return answer

    def _stats(self) -> dict[str, Any]:
        connections = sum(listener.connections for listener in self._listeners)
        return {**self._state.stats(), **self._verbs.figures(), **_process_figures(), "connections": connections}

    def _drop(self, query: bytes) -> dict[str, Any]:
        self._verbs.drop(query)
        self._replicator.drop(query)
        return self._state.drop(query)

    def _logs(self, request: Logs) -> dict[str, Any]:
        with open(self._log_file, "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - request.last_bytes))
            return {"text": log.read(request.last_bytes).decode(errors="replace")}


def _pieces(channel: Channel) -> Iterator[memoryview]:
    """What a peer writes, until it is done; each is valid until the next one is read."""
    chunk = memoryview(bytearray(CHUNK_BYTES))
    while True:
        kind, body = channel.receive_into(chunk, _soon())
        if kind is Kind.DONE:
            return
        if kind is not Kind.DATA:
            raise InvalidRequestError(f"{kind.name} where a piece of a replica was expected")
        yield body


def _soon() -> float:
    return time.monotonic() + _ANSWER_SECONDS


def _says(caller: Caller) -> str:
    return caller.right.name.lower()


def _process_figures() -> dict[str, int]:
    resident_pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {"rss_bytes": resident_pages * os.sysconf("SC_PAGE_SIZE"), "open_fds": len(os.listdir("/proc/self/fd"))}
