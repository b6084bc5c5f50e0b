"""Brings blocks of other agents to the tasks of this host: each peer is asked once for all that waits for it.

What tasks ask for is sorted by peer. A peer has one read at a time: what is asked of it meanwhile, by any task, waits
and goes into the next one, so that two hosts need one connection. What has been brought to another task that merges the
same version of a state is copied (`landed`). Peers are read in parallel, by a bounded number of threads, and each agent
begins with the one that follows itself: they do not all go to the same peer at once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pyslash.agent.landed import Copy, Key, Landed, Piece
from pyslash.agent.landing import Landing, landing
from pyslash.errors import (
    AgentBusyError,
    AgentError,
    AgentTimeoutError,
    AgentUnavailableError,
    InvalidRequestError,
    UnauthenticatedError,
)
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Gather, Land
from pyslash.transport import Placed, choose_transport

_MOST_PEERS_AT_ONCE = 16
"""A read waits for the network and copies without the interpreter's lock; with more, threads would wait for cores."""

Credentials = tuple[bytes, bytes]
"""A query's id, and its token to read."""


@dataclass(frozen=True)
class _Way:
    """To what is read in one request."""

    peer: AgentDescriptor
    mode: str
    credentials: Credentials
    version: str


@dataclass
class _Asked:
    """What one task wants of a peer; the future says how many bytes came by which transport."""

    landing: Landing
    blocks: list[Placed]
    timeout_seconds: float
    done: Future[Counter[str]] = field(default_factory=Future)


class Gatherer:
    """One for an agent; safe to share between threads."""

    def __init__(self, incarnation: bytes) -> None:
        """Of the agent with this incarnation. No thread is started yet."""
        self._own = incarnation.hex()
        self._pool = ThreadPoolExecutor(_MOST_PEERS_AT_ONCE, thread_name_prefix="gather")
        self._lock = threading.Lock()
        # A way is in here for as long as a thread reads it, or is about to.
        self._waiting: dict[_Way, list[_Asked]] = {}
        self._landed = Landed()
        self._reads = 0
        self._brought: dict[str, Counter[str]] = {}

    @contextmanager
    def landing(self, order: Gather, query: bytes) -> Iterator[Landing]:
        """Room for blocks of a query."""
        with landing(order.bytes, bytes.fromhex(self._own), query, order.version) as made:
            try:
                yield made
            finally:
                self._landed.forget(made)

    def land(self, landing: Landing, request: Land, credentials: Credentials, timeout_seconds: float) -> dict[str, int]:
        """Brings ranges of other agents' blocks, and returns how many bytes came by each transport.

        `timeout_seconds` bounds each read of a peer. After a failure, nothing of this request is written any more.
        What comes to landings of one version is read once, and copied: by `shm`.

        Raises:
            InvalidRequestError: a descriptor is none, a range leaves the landing, or there is no such block.
            TransportUnavailableError: the transport that is required cannot be used.
            StaleIncarnationError, AgentError: a peer is gone, or does not answer; a subclass says which.
        """
        ways = self._ways(landing, request, credentials)
        wanted = [(way, _Asked(landing, blocks, timeout_seconds)) for way, blocks in ways]
        for way, asked in wanted:
            self._ask(way, asked)
        answers = [asked.done for _, asked in wanted]
        wait(answers, return_when=FIRST_EXCEPTION)
        for answer in answers:
            answer.cancel()  # does nothing unless another one has failed before this one was begun
        wait(answers)
        failures = [answer.exception() for answer in answers if not answer.cancelled()]
        for failure in failures:
            if failure is not None:
                raise failure
        brought: Counter[str] = Counter()
        for answer in answers:
            brought.update(answer.result())
        return dict(brought)

    def figures(self) -> dict[str, Any]:
        """How often peers were read, and the bytes that came from each by each transport."""
        with self._lock:
            return {
                "reads_of_peers": self._reads,
                "bytes_of_peers": {peer: dict(by_transport) for peer, by_transport in self._brought.items()},
            }

    def _ways(self, landing: Landing, request: Land, credentials: Credentials) -> Iterator[tuple[_Way, list[Placed]]]:
        """What is wanted of each peer, beginning with the one that follows this agent in the order of incarnations."""
        peers = [(_described(text), blocks) for text, blocks in request.peers]
        peers.sort(key=lambda one: one[0].incarnation)
        later = [one for one in peers if one[0].incarnation > self._own]
        for peer, blocks in later + peers[: len(peers) - len(later)]:
            by_mode: dict[str, list[Placed]] = {}
            for at, place, ranges in blocks:
                _check_bounds(landing, place, ranges)
                # A block beyond the arena is on the agent's disk, and only the agent itself can serve it.
                mode = "tcp" if at >= peer.arena_bytes else request.transport
                by_mode.setdefault(mode, []).append(
                    Placed(at, [(start, size) for start, size in ranges], place, landing)
                )
            for mode, placed in by_mode.items():
                yield _Way(peer, mode, credentials, landing.version), placed

    def _ask(self, way: _Way, asked: _Asked) -> None:
        with self._lock:
            waiting = self._waiting.get(way)
            if waiting is not None:
                waiting.append(asked)
                return
            self._waiting[way] = [asked]
        self._submit(way)

    def _submit(self, way: _Way) -> None:
        try:
            self._pool.submit(self._read_waiting, way)
        except RuntimeError as error:  # a limit of pids or of memory
            with self._lock:
                waiting = self._waiting.pop(way, [])
            for asked in waiting:
                if asked.done.set_running_or_notify_cancel():
                    asked.done.set_exception(AgentBusyError(f"{way.peer} is not read: {error}"))

    def _read_waiting(self, way: _Way) -> None:
        with self._lock:
            waiting = self._waiting.get(way)
            if waiting is None:
                return
            self._waiting[way] = []
        self._read(way, [asked for asked in waiting if asked.done.set_running_or_notify_cancel()])
        with self._lock:
            if not self._waiting[way]:
                del self._waiting[way]
                return
        self._submit(way)  # behind the peers that wait for a thread

    def _read(self, way: _Way, together: list[_Asked]) -> None:
        if not together:
            return
        try:
            brought = self._bring(way, together)
        except BaseException as error:
            if len(together) > 1 and not isinstance(error, (AgentTimeoutError, AgentUnavailableError)):
                for asked in together:  # a request that is wrong must not fail the others
                    self._read(way, [asked])
                return
            for asked in together:
                asked.done.set_exception(error)
            return
        for asked, counts in zip(together, brought, strict=True):
            asked.done.set_result(counts)

    def _bring(self, way: _Way, together: list[_Asked]) -> list[Counter[str]]:
        """Gives each what it wants. Returns the bytes that came by each transport."""
        coming: dict[Key, Piece] = {}
        parts: list[tuple[list[Placed], list[Copy]]] = [
            self._landed.divide(way, asked.landing, asked.blocks, coming) if way.version else (asked.blocks, [])
            for asked in together
        ]
        wanted = [block for blocks, _ in parts for block in blocks]
        transport = self._read_peer(way, wanted, together) if wanted else ""
        self._landed.add(coming)
        for _, copies in parts:
            for copy in copies:
                copy.landing.write(copy.bytes, copy.at)
        return [
            Counter({transport: sum(block.size for block in blocks)})
            + Counter(shm=sum(len(copy.bytes) for copy in copies))  # which drops zeros
            for blocks, copies in parts
        ]

    def _read_peer(self, way: _Way, blocks: list[Placed], together: list[_Asked]) -> str:
        """Reads blocks from the peer, by the transport whose name this is."""
        timeout_seconds = max(asked.timeout_seconds for asked in together)
        try:
            transport = choose_transport(way.peer, way.mode, *way.credentials, timeout_seconds)
            with self._lock:
                self._reads += 1
            transport.bring(way.peer, blocks)
            with self._lock:
                of_peer = self._brought.setdefault(way.peer.incarnation, Counter())
                of_peer[transport.name] += sum(block.size for block in blocks)
        except UnauthenticatedError as error:
            raise AgentError(str(error)) from None  # the peer's failure, not that of our caller
        return transport.name


@lru_cache(maxsize=1024)  # each task of each epoch names the same peers
def _described(text: str) -> AgentDescriptor:
    try:
        return AgentDescriptor.from_json(text)
    except ValueError as error:
        raise InvalidRequestError(f"a peer of the request is not an agent: {error}") from None


def _check_bounds(landing: Landing, place: int, ranges: list[Any]) -> None:
    for offset, length in ranges:
        if place + offset + length > landing.size:
            raise InvalidRequestError(
                f"range [{offset}, {offset + length}) at {place} leaves the landing of {landing.size} bytes"
            )
