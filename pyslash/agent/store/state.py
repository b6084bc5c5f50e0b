"""The state of an agent: the arena, and for each query its live committed blocks.

Every method takes the one lock, and waits for nothing else while it holds it.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyslash._native import Arena, Plan
from pyslash.agent.store.block_set import Holding, LiveBlock
from pyslash.agent.store.own_blocks import OwnBlocks
from pyslash.agent.store.published import reported
from pyslash.agent.store.query_state import QueryState
from pyslash.agent.store.row_blocks import rows_on_their_way
from pyslash.agent.store.standby import Conceal, Standby, check_written
from pyslash.errors import InvalidRequestError, StaleIncarnationError
from pyslash.protocol.messages import (
    Checkpoint,
    Commit,
    Discard,
    Live,
    Promote,
    Read,
    Release,
    Replicate,
    Reserve,
    Resume,
    Seal,
    Write,
)
from pyslash.transport.reserved import reserved_block, write_all
from pyslash.units import BEFORE_ALL_PANES, LAST_EPOCH


class AgentState:
    """Everything the control plane and the compactor share. Queries are 16-byte ids."""

    def __init__(
        self, arena: Arena, fd: int, incarnation: bytes, conceal: Conceal = lambda query, offset: None
    ) -> None:
        """Starts with an empty arena, whose memory is the file `fd`. `conceal` ends a peer's right to write by RDMA."""
        self.arena = arena
        self.fd = fd
        self.incarnation = incarnation
        self.lock = threading.Lock()
        self.spilling = threading.Lock()  # taken before the other one: one call at a time makes room
        self.queries: dict[bytes, QueryState] = {}
        self._dropped: dict[bytes, int] = {}  # with the run that held it
        self.counters: Counter[str] = Counter()
        self.holding = Holding(arena, self.counters)
        self._standby = Standby(arena, self.holding, conceal)

    def check_incarnation(self, meant: str | None) -> None:
        """A later agent of the same executor listens at the same socket; it must not answer for an earlier one.

        Raises:
            StaleIncarnationError: the call was `meant` for another incarnation.
        """
        if meant != self.incarnation.hex():
            raise StaleIncarnationError(f"a call for incarnation {meant} reached incarnation {self.incarnation.hex()}")

    def commit(self, query: bytes, request: Commit) -> dict[str, Any]:
        """Makes the epoch's blocks part of the state, and swaps a finished compaction in. The answer says what is live.

        Raises:
            InvalidRequestError: an older epoch, other blocks or another plan than this epoch or query was committed
                with, an offset that is no published block of this query and epoch, or a replica that is not here.
                Nothing has changed then.
        """
        with self.lock:
            state = self.state_for(query, request.plan, request.run)
            if request.epoch < state.epoch or (request.epoch == state.epoch and _blocks(request) != state.blocks):
                raise InvalidRequestError(
                    f"commit of epoch {request.epoch}: epoch {state.epoch} has been committed with "
                    f"{len(state.blocks)} other blocks"
                )
            if request.epoch > state.epoch:
                for source, reported in request.replicas:
                    self._standby.check_commit(state, source, request.epoch, reported)
                self._commit(query, state, request)
                for source, _ in request.replicas:
                    self._standby.commit(query, state, source, request.epoch)
                self.queries[query] = state
                self.counters["commits"] += 1
            return {"freed": state.freed, **self.reply(state, request.known)}

    def live(self, query: bytes, request: Live) -> dict[str, Any]:
        """What is live, as `OwnBlocks.changes` tells it.

        Raises:
            FencedError: a later run holds the state.
        """
        with self.lock:
            state = self.queries.get(query)
            if state is None:
                return {**OwnBlocks().changes(0), **self._room()}
            state.check_run(request.run)
            return self.reply(state, request.known)

    @contextmanager
    def blocks_of_epoch(self, query: bytes, request: Checkpoint | Replicate, whole: bool) -> Iterator[list[LiveBlock]]:
        """The published blocks of an epoch that is not committed yet, and if `whole` all committed ones, pinned.

        Raises:
            InvalidRequestError: an offset is no published block of this query and epoch, or a `settled` epoch is not
                the last one that was committed.
        """
        with self.lock:
            state = self.state_for(query, request.plan, request.run)
            if isinstance(request, Replicate) and request.settled and state.epoch != request.epoch:
                raise InvalidRequestError(
                    f"replica as of epoch {request.epoch}: the last one that was committed is {state.epoch}"
                )
            self.queries[query] = state
            state.stored = max(state.stored, request.epoch)
            blocks = reported(self.arena, query, state, request)
            pinned = list(state.own.live) if whole else []
            blocks += [state.own.live[offset] for offset in pinned]
            self.holding.pin(pinned)
        try:
            yield blocks
        finally:
            with self.lock:
                self.holding.unpin(pinned)

    def taken_over(self, query: bytes, epoch: int) -> list[str]:
        """The agents whose shares this one has taken over as of an epoch."""
        with self.lock:
            state = self.queries.get(query)
            return [] if state is None else [source for source, at in state.promoted.items() if at == epoch]

    def view(self, block: LiveBlock, offset: int, length: int) -> Any:
        """Bytes of a block of `blocks_of_epoch`."""
        return self.holding.view(block, offset, length)

    def reserve(self, query: bytes, request: Reserve) -> dict[str, Any]:
        """Room for a replica's blocks: their offsets here.

        Raises:
            ArenaFullError: no room.
        """
        with self.lock:
            state = self.state_for(query, request.plan, request.run)
            self.queries[query] = state
            state.stored = max(state.stored, request.epoch)
            return {"offsets": self._standby.reserve(query, state, request)}

    def seal(self, query: bytes, request: Seal) -> dict[str, Any]:
        """A replica's blocks of an epoch have been written; they are checked, to the last byte.

        Raises:
            CorruptBlockError: one is not whole.
            InvalidRequestError: they were not reserved, or have been abandoned.
        """
        with self.lock:
            state = self.queries.get(query)
            if state is None or state.run < request.run:  # a reservation begins a run, and nothing else of a peer's
                raise InvalidRequestError(f"nothing of run {request.run} has been reserved for this query")
            state = self.state_for(query, request.plan, request.run)
            incoming = self._standby.written(query, state, request.source, request.epoch)
        blocks = [
            check_written(query, self.incarnation, state.plan, offset, self.arena.view(offset, length))
            for offset, length in incoming.places.values()
        ]
        with self.lock:
            self._standby.publish(query, state, request.source, incoming, blocks)
            self.counters["replica bytes"] += sum(block.length for block in blocks)
        return {}

    def promote(self, query: bytes, request: Promote) -> dict[str, Any]:
        """A lost agent's replica becomes part of this agent's state. Idempotent.

        Raises:
            InvalidRequestError: there is no replica of that epoch.
        """
        with self.lock:
            state = self.state_for(query, request.plan, request.run)
            self._standby.promote(query, state, request)
            self.counters["promotions"] += 1
            return {}

    def resume(self, query: bytes, request: Resume) -> dict[str, Any]:
        """Keeps the state under a later run, as of this epoch or the one before it.

        Raises:
            FencedError: a still later run holds it.
            InvalidRequestError: it was committed beyond this epoch, or panes were released that are needed.
        """
        with self.lock:
            state = self.queries.get(query)
            if state is not None and state.run < request.run and state.plan_text == request.plan:
                if state.epoch > request.epoch:
                    raise InvalidRequestError(f"resume as of epoch {request.epoch}: epoch {state.epoch} is committed")
                if state.first_live_pane > request.first_pane:
                    raise InvalidRequestError(f"resume as of epoch {request.epoch}: panes that it needs were released")
                state.run, state.stored = request.run, state.epoch
                self._standby.abandon_all(query, state, but_of=request.epoch)
            state = self.state_for(query, request.plan, request.run)
            self.queries[query] = state
            self.counters["resumes"] += 1
            return {}

    def discard(self, query: bytes, request: Discard) -> dict[str, Any]:
        """Frees what an update of this epoch has published. What its tasks still write is freed once published.

        Raises:
            InvalidRequestError: the epoch is committed, or its update has succeeded: the call comes late.
            FencedError: it is of an earlier run.
        """
        with self.lock:
            state = self.queries.get(query)
            if state is not None:
                state.check_run(request.run)
            if state is not None and request.run == state.run and request.epoch <= max(state.epoch, state.stored):
                raise InvalidRequestError(
                    f"discard of epoch {request.epoch}, whose update was over: it has been committed, or soon will be"
                )
            freed = self.arena.commit(query, request.epoch, [])
            if state is not None:
                self._standby.abandon_all(query, state)
            self.counters["discards"] += 1
            return {"freed": freed, **self._room()}

    def release(self, query: bytes, request: Release) -> dict[str, Any]:
        """Frees the blocks that hold no pane from `before_pane` on; the other dead panes go with a compaction.

        Raises:
            FencedError: it is of an earlier run, which has no say in what a later one needs.
        """
        with self.lock:
            state = self.queries.get(query)
            freed = 0
            if state is not None:
                state.check_run(request.run)
                state.first_live_pane = max(state.first_live_pane, request.before_pane)
                freed = state.own.release(self.holding, state.first_live_pane)
                for replica in state.replicas.values():
                    replica.release(self.holding, state.first_live_pane)
            self.counters["releases"] += 1
            return {"freed": freed, **self._room()}

    def drop(self, query: bytes) -> dict[str, Any]:
        """Frees everything of a query: all runs so far are refused from now on, and late blocks of them are swept."""
        with self.lock:
            state = self.queries.pop(query, None)
            self._dropped[query] = 0 if state is None else state.run
            freed = self.arena.commit(query, LAST_EPOCH, [])
            if state is not None:
                freed += len(state.own.live)
                self._forget(query, state)
            self.counters["drops"] += 1
            return {"freed": freed, **self._room()}

    def describe(self, query: bytes) -> dict[str, Any]:
        """Incarnation, sizes, the last committed epoch (-1: none), its run, replicas and number of live blocks."""
        with self.lock:
            state = self.queries.get(query)
            return {
                "incarnation": self.incarnation.hex(),
                "epoch": -1 if state is None else state.epoch,
                "run": 0 if state is None else state.run,
                "replicas": {} if state is None else state.replica_epochs(),
                "promoted": {} if state is None else state.promoted,
                "settled": {} if state is None else state.settled_replicas(),
                "first_live_pane": BEFORE_ALL_PANES if state is None else state.first_live_pane,
                "blocks": 0 if state is None else len(state.own.live),
                **self._room(),
            }

    def stats(self) -> dict[str, Any]:
        """Counters since the start, and bytes and blocks by query."""
        with self.lock:
            queries = {
                query.hex(): {
                    "epoch": state.epoch,
                    "blocks": len(state.own.live),
                    "bytes": state.own.total_bytes,
                    "replica_blocks": sum(len(replica.live) for replica in state.replicas.values()),
                    "replica_bytes": sum(replica.total_bytes for replica in state.replicas.values()),
                }
                for query, state in self.queries.items()
            }
            return {"counters": dict(self.counters), "queries": queries, "pinned": self.holding.pinned, **self._room()}

    @contextmanager
    def pinned(self, query: bytes, request: Read) -> Iterator[list[Any]]:
        """Views of ranges of blocks: committed, of rows, or of candidates. They stay in place until the context ends.

        Raises:
            StaleIncarnationError: the ticket was meant for an agent that is gone.
            InvalidRequestError: no such block of the query lies there, or a range leaves it.
        """
        self.check_incarnation(request.incarnation)
        with self.lock:
            blocks = [(self._readable(query, at, ranges), ranges) for at, ranges in request.blocks]
            self.holding.pin(block.offset for block, _ in blocks)
        try:
            yield [self.holding.view(block, offset, length) for block, ranges in blocks for offset, length in ranges]
            with self.lock:
                self.counters["reads served"] += 1
                self.counters["bytes served"] += sum(length for _, ranges in blocks for _, length in ranges)
        finally:
            with self.lock:
                self.holding.unpin(block.offset for block, _ in blocks)

    def _readable(self, query: bytes, at: int, ranges: list[list[int]]) -> LiveBlock:
        """The block that these ranges are of; with the lock held."""
        state = self.queries.get(query)
        block = None if state is None else state.own.live.get(at)
        if (block := block or rows_on_their_way(self.arena, query, at)) is None:
            raise InvalidRequestError(f"no block to read lies at {at}")
        for offset, length in ranges:
            if offset + length > block.length:
                raise InvalidRequestError(
                    f"range [{offset}, {offset + length}) leaves the block of {block.length} bytes"
                )
        return block

    @contextmanager
    def lending(self, query: bytes, request: Write) -> Iterator[None]:
        """Keeps a range that is reserved for a replica until the context ends, even if the replica is abandoned.

        Raises:
            StaleIncarnationError: the bytes were meant for an agent that is gone.
            InvalidRequestError: the range is not reserved for this query.
        """
        self.check_incarnation(request.incarnation)
        with self.lock:
            start = reserved_block(self.arena, os.getpid(), query, request.offset, request.length)
            self.holding.pin([start])
        try:
            yield
        finally:
            with self.lock:
                self.holding.unpin([start])

    def write(self, request: Write, pieces: Iterable[memoryview]) -> None:
        """Writes a replica's bytes into the room that was reserved for them.

        Raises:
            InvalidRequestError: the pieces are not of its length.
        """
        at, end = request.offset, request.offset + request.length
        for piece in pieces:
            if at + piece.nbytes > end:
                raise InvalidRequestError(f"a write of {request.length} bytes got more than that")
            at += write_all(self.fd, piece, at)
        if at != end:
            raise InvalidRequestError(f"a write of {request.length} bytes got {at - request.offset}")
        self.counted_write(request.length)

    def counted_write(self, length: int) -> None:
        """Counts bytes that a peer has written."""
        with self.lock:
            self.counters["bytes written by peers"] += length

    def counted_gathered(self, length: int) -> None:
        """Counts bytes of other agents' blocks that were brought to tasks of this host."""
        with self.lock:
            self.counters["bytes gathered"] += length

    def sweep(self) -> int:
        """Frees what dead processes left half written, and what late attempts published; returns how many blocks."""
        with self.lock:
            freed = self.arena.reclaim_dead()
            freed += sum(self.arena.commit(query, state.epoch, []) for query, state in self.queries.items())
            freed += sum(self.arena.commit(query, LAST_EPOCH, []) for query in self._dropped)
            self.counters["swept"] += freed
            return int(freed)

    def state_for(self, query: bytes, plan_text: str, run: int) -> QueryState:
        """The state of a query, as this run may see it; with the lock held. A new query is not stored yet.

        Raises:
            FencedError: a later run holds it.
            InvalidRequestError: the query was dropped, or has another plan.
        """
        if run <= self._dropped.get(query, -1):
            raise InvalidRequestError("this query was dropped; a query that starts again takes another id")
        self._dropped.pop(query, None)
        state = self.queries.get(query)
        if state is not None and run > state.run:
            # A later run has restored what it needs, here or elsewhere: counted twice it would be wrong.
            self._forget(query, state)
            del self.queries[query]
            state = None
        if state is None:
            return QueryState(Plan(plan_text), plan_text, run)
        state.check_run(run)
        if state.plan_text != plan_text:
            raise InvalidRequestError("the plan differs from the one that this query was committed with before")
        return state

    def _commit(self, query: bytes, state: QueryState, request: Commit) -> None:
        epoch = request.epoch
        blocks = reported(self.arena, query, state, request)
        # Before the new blocks join: a released input's offset may be one of theirs by now.
        state.own.swap(self.holding, query, state.first_live_pane)
        state.freed = self.arena.commit(query, epoch, sorted(set(request.offsets)))
        state.epoch, state.blocks, state.keeps_changes = epoch, _blocks(request), request.keeps_changes
        state.own.add(blocks)
        state.promoted = {source: at for source, at in state.promoted.items() if at >= epoch}

    def reply(self, state: QueryState, known: int) -> dict[str, Any]:
        """What is live, for who knows that answer, and the room that is left; with the lock held."""
        return {**state.own.changes(known), **self._room()}

    def _room(self) -> dict[str, int]:
        return {
            "used_bytes": self.arena.used_bytes,
            "arena_bytes": self.arena.size,
            "spilled_bytes": self.holding.disk.bytes,
        }

    def _forget(self, query: bytes, state: QueryState) -> None:
        state.own.forget(self.holding)
        self._standby.forget(query, state)


def _blocks(request: Commit) -> frozenset[tuple[int, int | None]]:
    heads: list[int | None] = [*request.heads] or [None] * len(request.offsets)
    return frozenset(zip(request.offsets, heads, strict=False))
