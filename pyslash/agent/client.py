"""Talking to an agent: the control plane's calls, each with a deadline, each failure an error of `pyslash.errors`."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.flight as flight

from pyslash import errors
from pyslash.agent import process
from pyslash.agent.descriptor import AgentDescriptor
from pyslash.agent.form import body
from pyslash.agent.messages import SCHEMA, messages
from pyslash.agent.request import (
    Checkpoint,
    Commit,
    Discard,
    Empty,
    Logs,
    Promote,
    Read,
    Release,
    Replicate,
    Request,
    Restore,
    Resume,
    Room,
    Write,
)
from pyslash.agent.token import headers

Via = Literal["unix", "tcp"]


@dataclass(frozen=True)
class CommitReply:
    """An agent's answer to a commit: the heads of all live blocks of the query, and how full the arena is."""

    blocks: list[bytes]
    freed: int
    used_bytes: int
    arena_bytes: int
    spilled_bytes: int = 0


@dataclass(frozen=True)
class Described:
    """What an agent holds of a query; `epoch` is the last committed one, -1 if none.

    `replicas`: of which agents it keeps a copy, by incarnation, and as of which epoch; `promoted`: which of them, as of
    which epoch, have become its own; panes before `first_live_pane` have been released.
    """

    incarnation: bytes
    epoch: int
    run: int
    replicas: dict[str, int]
    promoted: dict[str, int]
    blocks: list[bytes]
    used_bytes: int
    arena_bytes: int
    spilled_bytes: int = 0
    first_live_pane: int = -(1 << 63)


class AgentClient:
    """One agent as seen by one query. Safe to share between threads.

    Every call may raise AgentTimeoutError (no answer within `timeout_seconds`), AgentUnavailableError (nobody listens:
    the agent is gone), UnauthenticatedError (wrong token), StaleIncarnationError (another agent listens there now) and
    InvalidRequestError; each message names the agent and what was asked of it.
    """

    def __init__(
        self,
        descriptor: AgentDescriptor,
        query: bytes,
        token: bytes,
        *,
        via: Via | None = None,
        timeout_seconds: float = 30,
    ) -> None:
        """For a 16-byte query id and its token (`token.query_token`). Connects with the first call.

        `via` is the Unix socket where the agent shares this host's file system, TCP elsewhere, unless given.
        """
        if via is None:
            via = "unix" if descriptor.boot_id == process.boot_id() and os.path.exists(descriptor.socket) else "tcp"
        self.descriptor = descriptor
        self._via = via
        self._timeout = timeout_seconds
        self._headers = headers(query, token, descriptor.incarnation)
        self._flight = flight.connect(descriptor.unix_location if via == "unix" else descriptor.tcp_location)

    def __repr__(self) -> str:
        """Without the token."""
        return f"AgentClient({self.descriptor}, via={self._via!r})"

    def __enter__(self) -> AgentClient:
        """Closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection."""
        self._flight.close()

    def commit(
        self,
        epoch: int,
        offsets: list[int],
        plan: str,
        run: int = 0,
        heads: list[int] | None = None,
        replicas: list[list[Any]] | None = None,
    ) -> CommitReply:
        """Commits the epoch's blocks (offsets in the arena); may be repeated with the same arguments."""
        return _reply(self.act("commit", Commit(epoch, offsets, plan, run, heads or [], replicas or [])))

    def checkpoint(self, request: Checkpoint, timeout_seconds: float) -> dict[str, int]:
        """Writes a block file, durably: its `bytes`, `crc` and `last_pane` (microseconds)."""
        return self.act("checkpoint", request, timeout_seconds)

    def restore(self, request: Restore, timeout_seconds: float) -> CommitReply:
        """Takes over the blocks of these files, each once; the answer is that of a commit."""
        return _reply(self.act("restore", request, timeout_seconds))

    def replicate(self, request: Replicate, timeout_seconds: float) -> int:
        """Has the agent write blocks into a standby's arena; how many bytes."""
        return int(self.act("replicate", request, timeout_seconds)["bytes"])

    def promote(self, request: Promote) -> CommitReply:
        """Has a standby take a lost agent's replica for its own; the answer is that of a commit."""
        return _reply(self.act("promote", request))

    def resume(self, request: Resume) -> CommitReply:
        """Goes on with what the agent holds, under a later run; the answer is that of a commit."""
        return _reply(self.act("resume", request))

    def room(self, request: Room, timeout_seconds: float) -> int:
        """Has the agent make room in its arena; the bytes that it has on disk then."""
        return int(self.act("room", request, timeout_seconds)["spilled_bytes"])

    def release(self, before_pane: int, run: int = 0) -> int:
        """Panes that start before (microseconds) are needed no more; how many blocks that freed at once."""
        return int(self.act("release", Release(before_pane, run))["freed"])

    def discard(self, epoch: int, run: int = 0) -> int:
        """Gives up what an update of this epoch has written, before its commit; how many blocks that freed at once."""
        return int(self.act("discard", Discard(epoch, run))["freed"])

    def drop(self) -> int:
        """Frees all of the query, for good; how many blocks."""
        return int(self.act("drop", Empty())["freed"])

    def describe(self, timeout_seconds: float | None = None) -> Described:
        """What the agent holds of the query."""
        answer = self.act("describe", Empty(), timeout_seconds)
        blocks = [base64.b64decode(head) for head in answer["blocks"]]
        return Described(**{**answer, "incarnation": bytes.fromhex(answer["incarnation"]), "blocks": blocks})

    def stats(self) -> dict[str, Any]:
        """Counters, bytes by query, resident bytes and open descriptors of the agent."""
        return self.act("stats", Empty())

    def logs(self, last_bytes: int = 65536) -> str:
        """The end of the agent's log."""
        return str(self.act("logs", Logs(last_bytes))["text"])

    def read(self, offset: int, ranges: list[tuple[int, int]]) -> list[pa.Buffer]:
        """Ranges (offset in the block, length) of a committed block or one of rows, each in 64-byte aligned memory."""
        ticket = Read(offset, [list(one) for one in ranges], self.descriptor.incarnation)
        with self._named(f"read of {sum(length for _, length in ranges)} bytes"):
            pieces = (
                batch.data.column(0)[0].as_buffer()
                for batch in self._flight.do_get(flight.Ticket(body(ticket)), self._options())
            )
            buffers = [self._filled(pieces, length) for _, length in ranges]
            # To the end of the stream: only then has the agent let go of the block.
            if next(pieces, None) is not None:
                raise errors.AgentError(f"{self.descriptor}: a read got a longer stream than it asked for")
            return buffers

    def write(self, offset: int, data: Any) -> None:
        """Puts `data` (buffer protocol) where the agent has reserved room: `offset` in its arena."""
        source = pa.py_buffer(data)
        ticket = Write(offset, source.size, self.descriptor.incarnation)
        with self._named(f"write of {source.size} bytes"):
            put, answer = self._flight.do_put(
                flight.FlightDescriptor.for_command(body(ticket)), SCHEMA, self._options()
            )
            with put:
                for message, _ in messages(source):
                    put.write_batch(message)
                put.done_writing()
                # Only the end of the answer says that the agent has taken all of it.
                answer.read()

    def _filled(self, pieces: Iterator[pa.Buffer], length: int) -> pa.Buffer:
        # A message's body lies wherever gRPC put it; readers of a block rely on its alignment.
        whole = pa.allocate_buffer(length)
        into, filled = memoryview(whole).cast("B"), 0
        while filled < length:
            piece = next(pieces, None)
            if piece is None or filled + piece.size > length:
                raise errors.AgentError(f"{self.descriptor}: a read of {length} bytes got a stream of another length")
            into[filled : filled + piece.size] = memoryview(piece).cast("B")
            filled += piece.size
        return whole

    def act(self, name: str, request: Request, timeout_seconds: float | None = None) -> dict[str, Any]:
        """Any action; the answer's fields. What has a method of its own above is better called by it."""
        options = self._options(timeout_seconds)
        with self._named(name, timeout_seconds):
            results = list(self._flight.do_action(flight.Action(name, body(request)), options))
        if len(results) != 1:
            raise errors.AgentError(
                f"{self.descriptor}: {name} was answered with {len(results)} messages instead of one"
            )
        answer: dict[str, Any] = json.loads(results[0].body.to_pybytes())
        return answer

    def _options(self, timeout_seconds: float | None = None) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(timeout=timeout_seconds or self._timeout, headers=self._headers)

    @contextmanager
    def _named(self, what: str, timeout_seconds: float | None = None) -> Iterator[None]:
        """Raises an error of the Flight library as ours, naming the agent and what was awaited."""
        where = f"{self.descriptor} via {self._via}: {what}"
        try:
            yield
        except flight.FlightTimedOutError:
            raise errors.AgentTimeoutError(
                f"{where}: no answer within {timeout_seconds or self._timeout:g} s"
            ) from None
        except flight.FlightUnavailableError:
            raise errors.AgentUnavailableError(f"{where}: nobody listens; is the agent or its host gone?") from None
        except flight.FlightUnauthenticatedError:
            raise errors.UnauthenticatedError(f"{where}: the agent does not accept this query's token") from None
        except (flight.FlightError, pa.ArrowException) as error:
            raise _typed(error)(f"{where}: {_first_line(error)}") from None


def _reply(answer: dict[str, Any]) -> CommitReply:
    return CommitReply(**{**answer, "blocks": [base64.b64decode(head) for head in answer["blocks"]]})


def _typed(error: Exception) -> type[errors.SlashError]:
    """The class that the agent named; only classes of our own hierarchy."""
    named = getattr(errors, (getattr(error, "extra_info", b"") or b"").decode("ascii", "replace"), None)
    return named if isinstance(named, type) and issubclass(named, errors.SlashError) else errors.AgentError


def _first_line(error: Exception) -> str:
    # Flight appends gRPC's own context to the message.
    return str(error).split(". Detail:")[0].split(". gRPC client debug context:")[0].split("\n")[0]
