"""What other agents, and the driver, ask of an agent that is a standby."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyslash.agent.store.standby import check_written
from pyslash.errors import InvalidRequestError
from pyslash.protocol.messages import Promote, Reserve, Seal, Write
from pyslash.transport.reserved import reserved_block, write_all

if TYPE_CHECKING:
    from pyslash.agent.store.state import AgentState


class ReplicaCalls:
    """Takes the lock of the agent's state for what `Standby` does; bytes are checked and written without it."""

    def __init__(self, state: AgentState) -> None:
        self._state = state

    def reserve(self, query: bytes, request: Reserve) -> dict[str, Any]:
        """Room for a replica's blocks: their offsets here.

        Raises:
            ArenaFullError: no room.
        """
        with self._state.lock:
            state = self._state.state_for(query, request.plan, request.run)
            self._state.queries[query] = state
            state.stored = max(state.stored, request.epoch)
            return {"offsets": self._state.standby.reserve(query, state, request)}

    def seal(self, query: bytes, request: Seal) -> dict[str, Any]:
        """A replica's blocks of an epoch have been written; they are checked, to the last byte.

        Raises:
            CorruptBlockError: one is not whole.
            InvalidRequestError: they were not reserved, or have been abandoned.
        """
        with self._state.lock:
            state = self._state.queries.get(query)
            if state is None or state.run < request.run:  # a reservation begins a run, and nothing else of a peer's
                raise InvalidRequestError(f"nothing of run {request.run} has been reserved for this query")
            state = self._state.state_for(query, request.plan, request.run)
            incoming = self._state.standby.written(query, state, request.source, request.epoch)
        blocks = [
            check_written(query, self._state.incarnation, state.plan, offset, self._state.arena.view(offset, length))
            for offset, length in incoming.places.values()
        ]
        with self._state.lock:
            self._state.standby.publish(query, state, request.source, incoming, blocks)
            self._state.counters["replica bytes"] += sum(block.length for block in blocks)
        return {}

    def promote(self, query: bytes, request: Promote) -> dict[str, Any]:
        """A lost agent's replica becomes part of this agent's state. Idempotent.

        Raises:
            InvalidRequestError: there is no replica of that epoch.
        """
        with self._state.lock:
            state = self._state.state_for(query, request.plan, request.run)
            self._state.standby.promote(query, state, request)
            self._state.counters["promotions"] += 1
            return {}

    @contextmanager
    def lending(self, query: bytes, request: Write) -> Iterator[None]:
        """Keeps a range that is reserved for a replica until the context ends, even if the replica is abandoned.

        Raises:
            StaleIncarnationError: the bytes were meant for an agent that is gone.
            InvalidRequestError: the range is not reserved for this query.
        """
        self._state.check_incarnation(request.incarnation)
        with self._state.lock:
            start = reserved_block(self._state.arena, os.getpid(), query, request.offset, request.length)
            self._state.holding.pin([start])
        try:
            yield
        finally:
            with self._state.lock:
                self._state.holding.unpin([start])

    def write(self, request: Write, pieces: Iterable[memoryview]) -> None:
        """Writes a replica's bytes into the room that was reserved for them.

        Raises:
            InvalidRequestError: the pieces are not of its length.
        """
        at: int = request.offset
        end = at + request.length
        for piece in pieces:
            if at + piece.nbytes > end:
                raise InvalidRequestError(f"a write of {request.length} bytes got more than that")
            at += write_all(self._state.fd, piece, at)
        if at != end:
            raise InvalidRequestError(f"a write of {request.length} bytes got {at - request.offset}")
        self.counted_write(request.length)

    def counted_write(self, length: int) -> None:
        """Counts bytes that a peer has written."""
        with self._state.lock:
            self._state.counters["bytes written by peers"] += length
