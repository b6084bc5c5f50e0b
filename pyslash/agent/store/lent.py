"""Blocks that are lent: to who reads them, or writes them elsewhere. They stay in place for as long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyslash.agent.store.block_set import LiveBlock
from pyslash.agent.store.published import reported
from pyslash.agent.store.row_blocks import rows_on_their_way
from pyslash.errors import InvalidRequestError
from pyslash.protocol.messages import Checkpoint, Read, Replicate, Snapshot
from pyslash.units import ArenaOffset

if TYPE_CHECKING:
    from pyslash.agent.store.state import AgentState


class Lent:
    """Pins blocks with the lock of the agent's state, and lends them without it."""

    def __init__(self, state: AgentState) -> None:
        self._state = state

    @contextmanager
    def pinned(self, query: bytes, request: Read) -> Iterator[list[Any]]:
        """Views of ranges of blocks: committed, of rows, or of candidates. They stay in place until the context ends.

        Raises:
            StaleIncarnationError: the ticket was meant for an agent that is gone.
            InvalidRequestError: no such block of the query lies there, or a range leaves it.
        """
        self._state.check_incarnation(request.incarnation)
        with self._state.lock:
            blocks = [(self._readable(query, ArenaOffset(at), ranges), ranges) for at, ranges in request.blocks]
            self._state.holding.pin(block.offset for block, _ in blocks)
        try:
            yield [
                self._state.holding.view(block, offset, length) for block, ranges in blocks for offset, length in ranges
            ]
            with self._state.lock:
                self._state.counters["reads served"] += 1
                self._state.counters["bytes served"] += sum(length for _, ranges in blocks for _, length in ranges)
        finally:
            with self._state.lock:
                self._state.holding.unpin(block.offset for block, _ in blocks)

    def _readable(self, query: bytes, at: ArenaOffset, ranges: list[list[int]]) -> LiveBlock:
        """The block that these ranges are of; with the lock held."""
        state = self._state.queries.get(query)
        block = None if state is None else state.own.live.get(at)
        if (block := block or rows_on_their_way(self._state.arena, query, at)) is None:
            raise InvalidRequestError(f"no block to read lies at {at}")
        for offset, length in ranges:
            if offset + length > block.length:
                raise InvalidRequestError(
                    f"range [{offset}, {offset + length}) leaves the block of {block.length} bytes"
                )
        return block

    @contextmanager
    def blocks_of_epoch(self, query: bytes, request: Checkpoint | Replicate, whole: bool) -> Iterator[list[LiveBlock]]:
        """The published blocks of an epoch that is not committed yet, and if `whole` all committed ones, pinned.

        Raises:
            InvalidRequestError: an offset is no published block of this query and epoch, or a `settled` epoch is not
                the last one that was committed.
        """
        with self._state.lock:
            state = self._state.state_for(query, request.plan, request.run)
            if isinstance(request, Replicate) and request.settled and state.epoch != request.epoch:
                raise InvalidRequestError(
                    f"replica as of epoch {request.epoch}: the last one that was committed is {state.epoch}"
                )
            self._state.queries[query] = state
            state.stored = max(state.stored, request.epoch)
            blocks = reported(self._state.arena, query, state, request)
            pinned = list(state.own.live) if whole else []
            blocks += [state.own.live[offset] for offset in pinned]
            self._state.holding.pin(pinned)
        try:
            yield blocks
        finally:
            with self._state.lock:
                self._state.holding.unpin(pinned)

    @contextmanager
    def committed(self, query: bytes, request: Snapshot) -> Iterator[tuple[int, list[LiveBlock]]]:
        """All committed blocks, pinned, and the last epoch in them.

        Raises:
            InvalidRequestError: nothing has been committed in this run, or it has asked for this file before.
            FencedError: the run is over, or was replaced.
        """
        with self._state.lock:
            state = self._state.state_for(query, request.plan, request.run)
            if (epoch := state.epoch) < 0:
                raise InvalidRequestError("a snapshot of a query that has committed nothing here in this run")
            state.claim(request.run, request.name)
            blocks = list(state.own.live.values())
            self._state.holding.pin(block.offset for block in blocks)
        try:
            yield epoch, blocks
        finally:
            with self._state.lock:
                self._state.holding.unpin(block.offset for block in blocks)

    def view(self, block: LiveBlock, offset: int, length: int) -> Any:
        """Bytes of a block that is lent."""
        return self._state.holding.view(block, offset, length)

    def counted_gathered(self, length: int) -> None:
        """Counts bytes of other agents' blocks that were brought to tasks of this host."""
        with self._state.lock:
            self._state.counters["bytes gathered"] += length
