"""The control plane: what callers may do with one `AgentState`, each by the right that it has proved.

Actions (`request` has their bodies): commit, checkpoint, snapshot, end_snapshots, restore, take, fold, replicate,
reserve, seal, promote, resume, room, live, discard, release, drop, describe, stats, logs, what `verbs` answers, and
four that move bytes. `read` streams ranges of a block, `write` takes a replica's bytes: the `tcp` transport. `lend`
lets a process of this host write them itself: it owns the room until it says that it is done, or its connection ends.
`gather` brings blocks of other agents to a process of this host, for as long. `wire` has the format of all of this.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyslash.agent.budget import Budget, Hold
from pyslash.agent.checkpoint import Checkpointer
from pyslash.agent.compaction.compactor import Compactor
from pyslash.agent.compaction.epoch_folding import EpochFolding
from pyslash.agent.gather import Gatherer
from pyslash.agent.listener import FRAME_SECONDS, Listener, connection_limit
from pyslash.agent.replicate import Replicator
from pyslash.agent.store.figures import Figures
from pyslash.agent.store.lent import Lent
from pyslash.agent.store.replica_calls import ReplicaCalls
from pyslash.agent.store.spiller import Spiller
from pyslash.agent.store.state import AgentState
from pyslash.agent.verbs import VerbsEndpoint
from pyslash.errors import AgentError, ForbiddenError, InvalidRequestError, SlashError, UnauthenticatedError
from pyslash.protocol import wire
from pyslash.protocol.codec import Form, parse
from pyslash.protocol.messages import (
    Begin,
    Checkpoint,
    Commit,
    Conceal,
    Connect,
    Discard,
    Disconnect,
    Empty,
    EndSnapshots,
    Expose,
    Fold,
    FoldFiles,
    Gather,
    Land,
    Live,
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
    Snapshot,
    Take,
    Write,
)
from pyslash.protocol.token import Right, directory_grant, query_token, request_grant
from pyslash.protocol.wire import CHUNK_BYTES, PIECES_A_FRAME, Caller, Channel, Kind
from pyslash.units import AFTER_ALL_PANES

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


@dataclass(frozen=True)
class _Call:
    """A request as it came, and what it takes of the budget."""

    name: str
    grant: str
    body: bytes
    hold: Hold


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
        self._lent, self._figures = Lent(state), Figures(state)
        self._replicas = replicas = ReplicaCalls(state)
        self._replicator = Replicator(state, secret)
        self._gatherer = Gatherer(state.incarnation)
        self._compactor = compactor
        self._log_file = log
        self._listeners: list[Listener] = []
        self._local: Listener | None = None
        room, files, folds = Spiller(state), Checkpointer(state), EpochFolding(state)
        read, replicate, drive = Right.READ, Right.REPLICATE, Right.DRIVE
        self._actions: dict[str, _Action] = {
            "commit": _Action(drive, Commit, self._commit),
            "checkpoint": _Action(drive, Checkpoint, lambda by, asked: files.checkpoint(by.query, asked)),
            "snapshot": _Action(drive, Snapshot, lambda by, asked: files.snapshot(by.query, asked)),
            "fold_files": _Action(drive, FoldFiles, lambda by, asked: files.fold_files(by.query, asked)),
            "end_snapshots": _Action(drive, EndSnapshots, lambda by, asked: files.end_snapshots(by.query, asked)),
            "restore": _Action(drive, Restore, lambda by, asked: files.restore(by.query, asked)),
            "fold": _Action(drive, Fold, lambda by, asked: folds.fold(by.query, asked)),
            "take": _Action(drive, Take, lambda by, asked: files.take(by.query, asked)),
            "replicate": _Action(drive, Replicate, lambda by, asked: self._replicator.replicate(by.query, asked)),
            "promote": _Action(drive, Promote, lambda by, asked: replicas.promote(by.query, asked)),
            "room": _Action(drive, MakeRoom, lambda by, asked: room.make(by.query, asked)),
            "live": _Action(drive, Live, lambda by, asked: state.live(by.query, asked)),
            "begin": _Action(drive, Begin, lambda by, asked: state.begin(by.query, asked)),
            "resume": _Action(drive, Resume, lambda by, asked: state.resume(by.query, asked)),
            "release": _Action(drive, Release, self._release),
            "discard": _Action(drive, Discard, lambda by, asked: state.discard(by.query, asked)),
            "drop": _Action(drive, Empty, lambda by, _: self._drop(by.query)),
            "stats": _Action(drive, Empty, lambda *_: self._stats()),
            "logs": _Action(drive, Logs, lambda _, asked: self._logs(asked)),
            "reserve": _Action(replicate, Reserve, lambda by, asked: replicas.reserve(by.query, asked)),
            "seal": _Action(replicate, Seal, lambda by, asked: replicas.seal(by.query, asked)),
            "expose": _Action(replicate, Expose, self._expose),
            "conceal": _Action(replicate, Conceal, lambda by, asked: verbs.conceal(by.query, asked)),
            "describe": _Action(read, Empty, lambda by, _: self._figures.describe(by.query)),
            "connect": _Action(
                read, Connect, lambda by, asked: verbs.connect(by.query, asked, by.right >= Right.REPLICATE)
            ),
            "renew": _Action(read, Renew, lambda by, asked: verbs.renew(by.query, asked)),
            "disconnect": _Action(read, Disconnect, lambda by, asked: verbs.disconnect(by.query, asked)),
        }
        self._budgets = {right: Budget(right) for right in Right}
        self._streams: dict[str, tuple[Right, Callable[[Channel, Caller, _Call], None]]] = {
            "read": (read, self._read),
            "write": (replicate, self._write),
            "lend": (replicate, self._lend),
            "gather": (read, self._gather),
        }

    def listen_unix(self, path: str) -> None:
        """On a Unix socket, for this host. Again: the one before, which nobody finds any more, takes no connections."""
        before, self._local = self._local, self._start(wire.listen_unix(path, _BACKLOG))
        if before is not None:
            before.retire()

    def listen_tcp(self, host: str) -> int:
        """On a port that the system chooses, for other hosts; the port.

        Raises:
            OSError: the host's name or address is not this one's.
        """
        bound = wire.listen_tcp(host, _BACKLOG)
        self._start(bound)
        return int(bound.getsockname()[1])

    def close(self) -> None:
        """Ends every connection; calls in progress are not answered."""
        for listener in self._listeners:
            listener.close()

    def _start(self, bound: socket.socket) -> Listener:
        listener = Listener(bound, connection_limit(), self._welcome, self._answer)
        listener.start()
        self._listeners.append(listener)
        return listener

    def _welcome(self, connection: socket.socket, deadline: float) -> tuple[Channel, Caller]:
        def token_of(query: bytes, right: Right) -> bytes:
            return query_token(self._secret, query, right)

        return wire.welcome(connection, self._state.incarnation, token_of, deadline)

    @contextmanager
    def _received(self, channel: Channel, caller: Caller, deadline: float | None) -> Iterator[_Call | None]:
        """The next request, with what it takes of the budget until the context ends; None: the caller is done.

        What is too long, or finds no room, is dropped unread, and the connection goes on.
        """
        kind, length = channel.announced(deadline)
        until = time.monotonic() + FRAME_SECONDS
        with ExitStack() as held:
            try:
                if kind not in (Kind.CALL, Kind.DONE):
                    raise InvalidRequestError(f"{kind.name} where a request was expected")
                hold = held.enter_context(self._budgets[caller.right].held(length))
            except AgentError:
                channel.skip(until)
                raise
            _, call = channel.receive(until)
            called, _, body = call.partition(b"\n")
            name, _, grant = called.decode("ascii", "replace").partition(" ")
            yield _Call(name, grant, body, hold) if kind is Kind.CALL else None

    def _answer(self, channel: Channel, caller: Caller, deadline: float) -> bool:
        """One request in; one answer, or a stream of them, out. False: the caller is done."""
        name = "a request"
        try:
            with self._received(channel, caller, deadline) as call:
                if call is None:
                    return False
                name = call.name[:40]
                stream = self._streams.get(call.name)
                if stream is not None:
                    right, act = stream
                    _check_right(caller, call.name, right)
                    act(channel, caller, call)
                    return True
                answer = self._acted(caller, call)
            channel.send_result(json.dumps(answer, separators=(",", ":")).encode(), _soon())
        except (SlashError, OSError) as error:
            if isinstance(error, (OSError, wire.ConnectionEndedError, UnauthenticatedError)):
                raise
            _log.warning("query %s: %s refused: %s", caller.query.hex()[:8], name, error)
            channel.send(Kind.ERROR, f"{type(error).__name__}\n{error}".encode(), _soon())
        return True

    def _acted(self, caller: Caller, call: _Call) -> dict[str, Any]:
        action = self._actions.get(call.name)
        if action is None:
            raise InvalidRequestError(f"there is no action {call.name[:40]!r}")
        _check_right(caller, call.name, action.right)
        request = _parsed(action.form, call)
        directory = getattr(request, "directory", "")
        if directory and call.grant != directory_grant(self._secret, caller.query, directory):
            raise ForbiddenError(f"{call.name} names the directory {directory}, which this query has no grant for")
        if isinstance(request, Reserve) and caller.right < Right.DRIVE:
            self._check_order(caller, call)
        return action.act(caller, request)

    def _check_order(self, caller: Caller, call: _Call) -> None:
        """A reservation names a run, an epoch and a share: on a driver's word alone may it fence or replace any."""
        if not hmac.compare_digest(call.grant.encode(), request_grant(self._secret, caller.query, call.body).encode()):
            raise ForbiddenError(
                f"{call.name} needs the grant of an agent that the driver has told to replicate; this one has none"
            )

    def _read(self, channel: Channel, caller: Caller, call: _Call) -> None:
        """The ranges in order, many in a frame. A reader that is slow keeps its part of the readers' budget."""
        with self._lent.pinned(caller.query, parse(Read, call.body)) as views:
            for pieces in _frames(memoryview(view).cast("B") for view in views):
                channel.send_data(pieces, _soon())
        channel.send(Kind.RESULT, b"{}", _soon())

    def _write(self, channel: Channel, caller: Caller, call: _Call) -> None:
        """Bytes into a range that this agent has reserved, in pieces."""
        request = _parsed(Write, call)
        with self._replicas.lending(caller.query, request):
            channel.send(Kind.RESULT, b"{}", _soon())
            pieces = _pieces(channel)
            try:
                self._replicas.write(request, pieces)
            except InvalidRequestError:
                for _ in pieces:  # the peer listens only when it has said everything
                    pass
                raise
        channel.send(Kind.RESULT, b"{}", _soon())

    def _lend(self, channel: Channel, caller: Caller, call: _Call) -> None:
        """The same range, for a process of this host to write: nobody else's until it is done, or gone."""
        request = _parsed(Write, call)
        if not channel.is_local:
            raise ForbiddenError("only who shares this host's memory can write into it")
        with self._replicas.lending(caller.query, request):
            channel.send(Kind.RESULT, b"{}", _soon())
            with self._received(channel, caller, None) as more:
                if more is not None:
                    raise InvalidRequestError(f"{more.name[:40]!r} where the end of a write was expected")
            self._replicas.counted_write(request.length)
        channel.send(Kind.RESULT, b"{}", _soon())

    def _gather(self, channel: Channel, caller: Caller, call: _Call) -> None:
        """Blocks of other agents, where a process of this host maps them until it is done, or gone."""
        if not channel.is_local:
            raise ForbiddenError("only who shares this host's memory can map a landing")
        token = query_token(self._secret, caller.query, Right.READ)
        order = _parsed(Gather, call)
        with self._gatherer.landing(order, caller.query) as made:
            answer: dict[str, Any] = {"fd": made.fd, "start": made.start}
            while True:
                channel.send(Kind.RESULT, json.dumps(answer).encode(), _soon())
                with self._received(channel, caller, None) as asked:
                    if asked is None:
                        break
                    if asked.name != "land":
                        raise InvalidRequestError(f"{asked.name[:40]!r} where `land` or the end was expected")
                    request = _parsed(Land, asked)
                brought = self._gatherer.land(made, request, (caller.query, token), order.timeout_seconds)
                self._lent.counted_gathered(sum(brought.values()))
                answer = {"brought": brought}
        channel.send(Kind.RESULT, b"{}", _soon())

    def _commit(self, caller: Caller, request: Commit) -> dict[str, Any]:
        answer = self._state.commit(caller.query, request)
        self._compactor.look()
        return answer

    def _expose(self, caller: Caller, request: Expose) -> dict[str, Any]:
        with self._state.lock:  # who gives the room up conceals it, and has to find what is exposed
            return self._verbs.expose(caller.query, request)

    def _release(self, caller: Caller, request: Release) -> dict[str, Any]:
        answer = self._state.release(caller.query, request)
        self._compactor.look()
        if request.before_pane == AFTER_ALL_PANES:
            self._replicator.drop(caller.query)
        return answer

    def _stats(self) -> dict[str, Any]:
        return {
            **self._figures.stats(),
            **self._verbs.figures(),
            **self._gatherer.figures(),
            **_process_figures(),
            "connections": sum(listener.connections for listener in self._listeners),
        }

    def _drop(self, query: bytes) -> dict[str, Any]:
        self._verbs.drop(query)
        self._replicator.drop(query)
        return self._state.drop(query)

    def _logs(self, request: Logs) -> dict[str, Any]:
        with open(self._log_file, "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - request.last_bytes))
            return {"text": log.read(request.last_bytes).decode(errors="replace")}


def _check_right(caller: Caller, name: str, right: Right) -> None:
    if caller.right < right:
        raise ForbiddenError(f"{name} needs the right to {right.name.lower()}; this token is for {_says(caller)}")


def _parsed(form: type[Form], call: _Call) -> Form:
    """The request, of which no more is kept than its fields: what a driver asks for may take long."""
    request = parse(form, call.body)
    call.hold.release()
    return request


def _frames(views: Iterable[memoryview]) -> Iterator[list[memoryview]]:
    """The same bytes, as the pieces of one frame after the other."""
    pieces: list[memoryview] = []
    room = CHUNK_BYTES
    for view in views:
        at = 0
        while at < view.nbytes:
            piece = view[at : at + room]
            pieces.append(piece)
            at, room = at + piece.nbytes, room - piece.nbytes
            if not room or len(pieces) == PIECES_A_FRAME:
                yield pieces
                pieces, room = [], CHUNK_BYTES
    if pieces:
        yield pieces


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
