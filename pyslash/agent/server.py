"""The control plane: Arrow Flight over one `AgentState`. Each call is checked for its query's token first.

Actions (bodies: `request`): commit, checkpoint, restore, replicate, reserve, seal, promote, resume, room, discard,
release, drop, describe, stats, logs, and what `verbs` answers. DoGet streams ranges of a block, DoPut takes a
replica's bytes: the `tcp` transport. The name of the error's class travels as the Flight error's extra info; `client`
raises it again.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from pyslash.agent import token
from pyslash.agent.checkpoint import Checkpointer
from pyslash.agent.compaction import Compactor
from pyslash.agent.form import parse
from pyslash.agent.messages import SCHEMA, messages
from pyslash.agent.replicate import Replicator
from pyslash.agent.request import (
    Checkpoint,
    Commit,
    Conceal,
    Connect,
    Discard,
    Disconnect,
    Empty,
    Expose,
    Logs,
    Promote,
    Read,
    Release,
    Renew,
    Replicate,
    Reserve,
    Restore,
    Resume,
    Room,
    Seal,
    Write,
)
from pyslash.agent.room import RoomMaker
from pyslash.agent.state import AgentState
from pyslash.agent.verbs import VerbsEndpoint
from pyslash.errors import SlashError

_log = logging.getLogger(__name__)


class _Caller(flight.ServerMiddleware):  # type: ignore[misc]
    """The query that a call has proved its right to, and the incarnation that it is meant for."""

    def __init__(self, query: bytes, incarnation: str | None) -> None:
        self.query = query
        self.incarnation = incarnation


class _TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """No token, no answer: runs before any method of the server."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def start_call(self, info: Any, headers: dict[str, list[str | bytes]]) -> _Caller:
        query = token.verify(self._secret, headers)
        if query is None:
            raise flight.FlightUnauthenticatedError("this call carries no valid query id and token")
        return _Caller(query, token.single(headers, token.INCARNATION_HEADER))


class AgentServer(flight.FlightServerBase):  # type: ignore[misc]
    """Listens as soon as it is constructed; `port` is the one that the system chose."""

    def __init__(
        self,
        location: str,
        secret: bytes,
        state: AgentState,
        compactor: Compactor,
        verbs: VerbsEndpoint,
        log: Path,
    ) -> None:
        """On `location`: grpc+unix://… or grpc+tcp://host:0."""
        self._verbs = verbs
        self._state = state
        self._replicator = Replicator(state, secret)
        room = RoomMaker(state)
        files = Checkpointer(state)
        self._compactor = compactor
        self._log_file = log
        self._actions: dict[str, Callable[[bytes, bytes], dict[str, Any]]] = {
            "commit": self._commit,
            "checkpoint": lambda query, body: files.checkpoint(query, parse(Checkpoint, body)),
            "restore": lambda query, body: files.restore(query, parse(Restore, body)),
            "replicate": lambda query, body: self._replicator.replicate(query, parse(Replicate, body)),
            "reserve": lambda query, body: state.reserve(query, parse(Reserve, body)),
            "seal": lambda query, body: state.seal(query, parse(Seal, body)),
            "promote": lambda query, body: state.promote(query, parse(Promote, body)),
            "room": lambda query, body: room.make(query, parse(Room, body)),
            "resume": lambda query, body: state.resume(query, parse(Resume, body)),
            "release": self._release,
            "discard": lambda query, body: state.discard(query, parse(Discard, body)),
            "drop": self._drop,
            "describe": lambda query, body: self._plain(body, lambda: state.describe(query)),
            "stats": lambda query, body: self._plain(body, self._stats),
            "connect": lambda query, body: verbs.connect(query, parse(Connect, body)),
            "renew": lambda query, body: verbs.renew(query, parse(Renew, body)),
            "disconnect": lambda query, body: verbs.disconnect(query, parse(Disconnect, body)),
            "expose": lambda query, body: verbs.expose(query, parse(Expose, body)),
            "conceal": lambda query, body: verbs.conceal(query, parse(Conceal, body)),
            "logs": self._logs,
        }
        super().__init__(location, middleware={"caller": _TokenCheck(secret)})

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        """One JSON object in, one out."""
        query = context.get_middleware("caller").query
        try:
            self._state.check_incarnation(context.get_middleware("caller").incarnation)
            act = self._actions.get(action.type)
            if act is None:
                raise flight.FlightServerError(f"there is no action {action.type[:40]!r}")
            answer = act(query, bytes(action.body or b""))
        except SlashError as error:
            _log.warning("query %s: %s refused: %s", query.hex()[:8], action.type, error)
            raise _flight_error(error) from None
        return iter([flight.Result(pa.py_buffer(json.dumps(answer, separators=(",", ":")).encode()))])

    def do_get(self, context: Any, ticket: Any) -> Any:
        """The ranges in order, each cut into messages of one large_binary value."""
        query = context.get_middleware("caller").query
        try:
            request = parse(Read, bytes(ticket.ticket))
            views = self._state.pin(query, request)
        except SlashError as error:
            _log.warning("query %s: read refused: %s", query.hex()[:8], error)
            raise _flight_error(error) from None
        return flight.GeneratorStream(SCHEMA, self._messages(request.offset, views))

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Bytes into a range that this agent has reserved, in messages of one large_binary value each."""
        query = context.get_middleware("caller").query
        try:
            request = parse(Write, bytes(descriptor.command or b""))
            pieces = (chunk.data.column(0)[0].as_buffer() for chunk in reader)
            self._state.write(query, request, pieces)
        except SlashError as error:
            _log.warning("query %s: write refused: %s", query.hex()[:8], error)
            raise _flight_error(error) from None

    def _messages(self, offset: int, views: list[Any]) -> Iterator[pa.RecordBatch]:
        served = 0
        try:
            for view in views:
                for message, size in messages(pa.py_buffer(view)):
                    served += size
                    yield message
        finally:
            self._state.unpin(offset, served)

    def _commit(self, query: bytes, body: bytes) -> dict[str, Any]:
        answer = self._state.commit(query, parse(Commit, body))
        self._compactor.look()
        return answer

    def _release(self, query: bytes, body: bytes) -> dict[str, Any]:
        answer = self._state.release(query, parse(Release, body))
        self._compactor.look()
        return answer

    def _stats(self) -> dict[str, Any]:
        return {**self._state.stats(), **self._verbs.figures(), **_process_figures()}

    def _drop(self, query: bytes, body: bytes) -> dict[str, Any]:
        parse(Empty, body)
        self._verbs.drop(query)
        self._replicator.drop(query)
        return self._state.drop(query)

    def _logs(self, query: bytes, body: bytes) -> dict[str, Any]:
        last_bytes = parse(Logs, body).last_bytes
        with open(self._log_file, "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - last_bytes))
            return {"text": log.read(last_bytes).decode(errors="replace")}

    @staticmethod
    def _plain(body: bytes, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        parse(Empty, body)
        return act()


def _flight_error(error: SlashError) -> flight.FlightServerError:
    return flight.FlightServerError(str(error), extra_info=type(error).__name__.encode())


def _process_figures() -> dict[str, int]:
    resident_pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {"rss_bytes": resident_pages * os.sysconf("SC_PAGE_SIZE"), "open_fds": len(os.listdir("/proc/self/fd"))}
