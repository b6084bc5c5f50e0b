"""What an agent holds: the arena, and for each query the committed blocks that are alive.

A block that readers or a compaction still use is *pinned*; one that nobody needs any more is *doomed*, and freed as
soon as it is unpinned. Every method takes the one lock; none waits for anything else while it holds it.
"""

from __future__ import annotations

import base64
import os
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyslash import _native
from pyslash.agent.adopt import adopt
from pyslash.agent.compaction import Outcome, choose_inputs
from pyslash.agent.request import Checkpoint, Commit, Discard, Read, Release, Restore, Write
from pyslash.agent.reserved import check_reserved, write_all
from pyslash.checkpoint.block_file import StoredBlock, decode, encode, head_crc
from pyslash.checkpoint.directory import BlockDirectory, BlockFile
from pyslash.errors import FencedError, InvalidRequestError, StaleIncarnationError

# No epoch of a stream: Spark counts from zero by ones. A compaction's result carries it, so that the commit of an
# epoch, which drops what earlier attempts left, cannot drop a result that waits to be swapped in.
COMPACTED_EPOCH = (1 << 63) - 1
_LAST_EPOCH = COMPACTED_EPOCH - 1
_BEFORE_ALL_PANES = -(1 << 63)
_PUBLISHED = 2  # a block's state in the arena


@dataclass(frozen=True)
class LiveBlock:
    """A committed block: where it lies in the arena, its head as bytes, its panes as (start, groups, bytes)."""

    offset: int
    length: int
    head: bytes
    panes: tuple[tuple[int, int, int], ...]

    def dead_bytes(self, first_live_pane: int) -> int:
        """Bytes of panes that no open window needs."""
        return sum(size for pane, _, size in self.panes if pane < first_live_pane)

    def is_dead(self, first_live_pane: int) -> bool:
        """Whether no pane is alive."""
        return all(pane < first_live_pane for pane, _, _ in self.panes)


@dataclass
class QueryState:
    """One query's share of the arena."""

    plan: Any
    plan_text: str
    run: int = 0  # of the query that this state belongs to: a later run restores everything itself
    epoch: int = -1
    stored: int = -1  # the last epoch whose checkpoint was asked for: its update is over
    offsets: frozenset[int] = frozenset()  # of the last commit, to recognise it when it is repeated
    freed: int = 0  # by the last commit
    first_live_pane: int = _BEFORE_ALL_PANES
    live: dict[int, LiveBlock] = field(default_factory=dict)
    compacting: bool = False
    compacted: Outcome | None = None  # finished, waits for the next commit
    restored: set[str] = field(default_factory=set)  # names of files whose blocks are live here

    @property
    def bytes(self) -> int:
        """Arena bytes of the live blocks."""
        return sum(block.length for block in self.live.values())


@dataclass(frozen=True)
class CompactionJob:
    """Blocks to fold into one. They stay pinned until `AgentState.end_compaction`."""

    query: bytes
    plan: Any
    offsets: list[int]
    first_live_pane: int


class AgentState:
    """Everything the control plane and the compactor share. Queries are 16-byte ids."""

    def __init__(self, arena: Any, fd: int, incarnation: bytes) -> None:
        """Over an empty arena, whose memory is the file `fd`."""
        self._arena = arena
        self._fd = fd
        self._incarnation = incarnation
        self._lock = threading.Lock()
        self._queries: dict[bytes, QueryState] = {}
        self._dropped: set[bytes] = set()
        self._pins: Counter[int] = Counter()
        self._doomed: set[int] = set()
        self.counters: Counter[str] = Counter()

    def check_incarnation(self, meant: str | None) -> None:
        """A later agent of the same executor listens at the same socket; it must not answer for an earlier one.

        Raises:
            StaleIncarnationError: the call was `meant` for another incarnation.
        """
        if meant != self._incarnation.hex():
            raise StaleIncarnationError(f"a call for incarnation {meant} reached incarnation {self._incarnation.hex()}")

    def commit(self, query: bytes, request: Commit) -> dict[str, Any]:
        """Makes the epoch's blocks the query's, swaps a finished compaction in, and answers with all live heads.

        Raises:
            InvalidRequestError: an older epoch, other blocks or another plan than this epoch or query was committed
                with, or an offset that is no published block of this query and epoch. Nothing has changed then.
        """
        offsets = frozenset(request.offsets)
        with self._lock:
            state = self._state_for(query, request.plan, request.run)
            if request.epoch < state.epoch or (request.epoch == state.epoch and offsets != state.offsets):
                raise InvalidRequestError(
                    f"commit of epoch {request.epoch}: epoch {state.epoch} has been committed with "
                    f"{len(state.offsets)} other blocks"
                )
            if request.epoch > state.epoch:
                self._commit(query, state, request)
                self._queries[query] = state
                self.counters["commits"] += 1
            return {"blocks": self._heads(state), "freed": state.freed, **self._room()}

    def checkpoint(self, query: bytes, request: Checkpoint) -> dict[str, Any]:
        """Writes the epoch's published blocks to a file, in a snapshot also all committed ones, before the commit.

        Raises:
            InvalidRequestError: an offset is no published block of this query and epoch.
            CheckpointError: the file cannot be written.
        """
        with self._lock:
            state = self._state_for(query, request.plan, request.run)
            self._queries[query] = state
            state.stored = max(state.stored, request.epoch)
            blocks = self._reported(query, state, request)
            pinned = list(state.live) if request.snapshot else []
            blocks += [state.live[offset] for offset in pinned]
            self._pins.update(pinned)
        try:
            data = encode(request.plan, [self._arena.view(block.offset, block.length) for block in blocks])
            crc = BlockDirectory(request.directory).write(request.name, data)
        finally:
            with self._lock:
                self._unpin(pinned)
        with self._lock:
            self.counters["checkpoints"] += 1
        panes = [pane for block in blocks for pane, _, _ in block.panes]
        return {"bytes": data.size, "crc": crc, "last_pane": max(panes, default=_BEFORE_ALL_PANES)}

    def restore(self, query: bytes, request: Restore) -> dict[str, Any]:
        """Takes over the blocks of files, each file once; answers with all live heads.

        Raises:
            CheckpointError, CorruptBlockError: a file is missing, or not what its manifest says.
            ArenaFullError: no room. The files before it have been taken over; the same call again goes on.
        """
        directory = BlockDirectory(request.directory)
        with self._lock:
            state = self._state_for(query, request.plan, request.run)
            self._queries[query] = state
            done = set(state.restored)
        for name, size, crc in request.files:
            if name in done:
                continue
            stored = decode(directory.read(BlockFile(name, size, crc, 0, "", False)), name)
            with self._lock:
                if self._queries.get(query) is not state:
                    raise FencedError(f"run {request.run} of the query was replaced while it restored {name}")
                if name not in state.restored:
                    self._take_over(query, state, [block for block in stored if block.segments])
                    state.restored.add(name)
        with self._lock:
            self.counters["restores"] += 1
            return {"blocks": self._heads(state), "freed": 0, **self._room()}

    def discard(self, query: bytes, request: Discard) -> dict[str, Any]:
        """Frees what an update of this epoch has published; what its tasks still write goes when they publish it.

        Raises:
            InvalidRequestError: the epoch is committed, or its update has succeeded: the call comes late.
            FencedError: it is of an earlier run.
        """
        with self._lock:
            state = self._queries.get(query)
            if state is not None and request.run < state.run:
                raise FencedError(f"run {request.run} of the query was replaced by run {state.run}")
            if state is not None and request.run == state.run and request.epoch <= max(state.epoch, state.stored):
                raise InvalidRequestError(
                    f"discard of epoch {request.epoch}, whose update was over: it has been committed, or soon will be"
                )
            freed = self._arena.commit(query, request.epoch, [])
            self.counters["discards"] += 1
            return {"freed": freed, **self._room()}

    def release(self, query: bytes, request: Release) -> dict[str, Any]:
        """Frees the blocks that hold no pane from `before_pane` on; the other dead panes go with a compaction.

        Raises:
            FencedError: it is of an earlier run, which has no say in what a later one needs.
        """
        with self._lock:
            state = self._queries.get(query)
            if state is not None and request.run < state.run:
                raise FencedError(f"run {request.run} of the query was replaced by run {state.run}")
            dead: list[LiveBlock] = []
            if state is not None:
                state.first_live_pane = max(state.first_live_pane, request.before_pane)
                dead = [block for block in state.live.values() if block.is_dead(state.first_live_pane)]
                self._retire(state, [block.offset for block in dead])
            self.counters["releases"] += 1
            return {"freed": len(dead), **self._room()}

    def drop(self, query: bytes) -> dict[str, Any]:
        """Frees everything of a query for good: its id is refused from now on, and late blocks of it are swept."""
        with self._lock:
            state = self._queries.pop(query, None)
            self._dropped.add(query)
            freed = self._arena.commit(query, _LAST_EPOCH, [])
            if state is not None:
                freed += len(state.live)
                self._forget(state)
            self.counters["drops"] += 1
            return {"freed": freed, **self._room()}

    def describe(self, query: bytes) -> dict[str, Any]:
        """Incarnation, sizes, the last committed epoch (-1: none) and all live heads."""
        with self._lock:
            state = self._queries.get(query)
            return {
                "incarnation": self._incarnation.hex(),
                "epoch": -1 if state is None else state.epoch,
                "blocks": [] if state is None else self._heads(state),
                **self._room(),
            }

    def stats(self) -> dict[str, Any]:
        """Counters since the start, and bytes and blocks by query."""
        with self._lock:
            queries = {
                query.hex(): {"epoch": state.epoch, "blocks": len(state.live), "bytes": state.bytes}
                for query, state in self._queries.items()
            }
            return {"counters": dict(self.counters), "queries": queries, "pinned": len(self._pins), **self._room()}

    def pin(self, query: bytes, request: Read) -> list[Any]:
        """Views of the ranges of a committed block of the query; `unpin` its offset when they have been used.

        Raises:
            StaleIncarnationError: the ticket was meant for an agent that is gone.
            InvalidRequestError: no committed block of the query lies there, or a range leaves it.
        """
        self.check_incarnation(request.incarnation)
        with self._lock:
            state = self._queries.get(query)
            block = None if state is None else state.live.get(request.offset)
            if block is None:
                raise InvalidRequestError(f"no committed block of this query lies at {request.offset}")
            for offset, length in request.ranges:
                if offset + length > block.length:
                    raise InvalidRequestError(
                        f"range [{offset}, {offset + length}) leaves the block of {block.length} bytes"
                    )
            self._pins[block.offset] += 1
        return [self._arena.view(block.offset + offset, length) for offset, length in request.ranges]

    def unpin(self, offset: int, served: int) -> None:
        """Ends a `pin` under which `served` bytes were sent."""
        with self._lock:
            self.counters["bytes served"] += served
            self._unpin([offset])

    def write(self, query: bytes, request: Write, pieces: Iterable[Any]) -> None:
        """Puts a replica's bytes where this agent has reserved room for them.

        Raises:
            StaleIncarnationError: they were meant for an agent that is gone.
            InvalidRequestError: the range is not reserved for this query, or the pieces are not of its length.
        """
        self.check_incarnation(request.incarnation)
        check_reserved(self._arena, os.getpid(), query, request.offset, request.length)
        at, end = request.offset, request.offset + request.length
        for piece in pieces:
            if at + piece.size > end:
                raise InvalidRequestError(f"a write of {request.length} bytes got more than that")
            at += write_all(self._fd, piece, at)
        if at != end:
            raise InvalidRequestError(f"a write of {request.length} bytes got {at - request.offset}")
        with self._lock:
            self.counters["bytes written by peers"] += request.length

    def begin_compaction(self) -> CompactionJob | None:
        """Blocks of some query that are worth folding, pinned; None if there are none."""
        with self._lock:
            for query, state in self._queries.items():
                if state.compacting or state.compacted is not None:
                    continue
                offsets = choose_inputs(state.live.values(), state.first_live_pane)
                if offsets:
                    state.compacting = True
                    self._pins.update(offsets)
                    return CompactionJob(query, state.plan, offsets, state.first_live_pane)
        return None

    def compact(self, job: CompactionJob) -> bytes:
        """The long part, without the lock: the head of the new published block, empty if no pane was left."""
        head: bytes = _native.compact(
            job.plan, self._arena, job.offsets, job.first_live_pane, job.query, COMPACTED_EPOCH
        )
        return head

    def end_compaction(self, job: CompactionJob, head: bytes | None) -> None:
        """Keeps the result for the next commit; `head` is None if the compaction failed."""
        with self._lock:
            self._unpin(job.offsets)
            outcome = None if head is None else Outcome(tuple(job.offsets), self._block(head) if head else None)
            state = self._queries.get(job.query)
            if state is not None and state.plan is job.plan:
                state.compacting = False
                state.compacted = outcome
                self.counters["compactions" if outcome else "failed compactions"] += 1
            elif outcome is not None:
                self._doom(outcome.offsets())

    def sweep(self) -> int:
        """Frees what dead processes left half written, and what late attempts published; returns how many blocks."""
        with self._lock:
            freed = self._arena.reclaim_dead()
            freed += sum(self._arena.commit(query, state.epoch, []) for query, state in self._queries.items())
            freed += sum(self._arena.commit(query, _LAST_EPOCH, []) for query in self._dropped)
            self.counters["swept"] += freed
            return int(freed)

    def _take_over(self, query: bytes, state: QueryState, stored: list[StoredBlock]) -> None:
        heads: list[bytes] = []
        try:
            for block in stored:
                # Beyond all epochs, as a compaction's result is: no commit may drop it.
                heads.append(adopt(self._arena, self._fd, query, COMPACTED_EPOCH, block))
            taken = [self._block(head) for head in heads]
            self._arena.commit(query, _BEFORE_ALL_PANES, [block.offset for block in taken])
        except BaseException:
            for head in heads:
                self._arena.free(_native.Head(head).arena_offset)
            raise
        state.live.update((block.offset, block) for block in taken)

    def _state_for(self, query: bytes, plan_text: str, run: int) -> QueryState:
        if query in self._dropped:
            raise InvalidRequestError("this query was dropped; a query that starts again takes another id")
        state = self._queries.get(query)
        if state is not None and run > state.run:
            # A later run has restored what it needs, here or elsewhere: counted twice it would be wrong.
            self._forget(state)
            del self._queries[query]
            state = None
        if state is None:
            return QueryState(_native.Plan(plan_text), plan_text, run)
        if run < state.run:
            raise FencedError(f"run {run} of the query was replaced by run {state.run}; stop this one")
        if state.plan_text != plan_text:
            raise InvalidRequestError("the plan differs from the one that this query was committed with before")
        return state

    def _commit(self, query: bytes, state: QueryState, request: Commit) -> None:
        epoch, offsets = request.epoch, frozenset(request.offsets)
        blocks = self._reported(query, state, request)
        compacted, state.compacted = state.compacted, None
        added = compacted.offsets() if compacted is not None else []
        # Before the new blocks join: a released input's offset may be one of theirs by now.
        replaced = [offset for offset in compacted.inputs if offset in state.live] if compacted is not None else []
        state.freed = self._arena.commit(query, epoch, [*sorted(offsets), *added])
        state.epoch, state.offsets = epoch, offsets
        state.live.update((block.offset, block) for block in blocks)
        if compacted is not None:
            self._retire(state, replaced)
            if compacted.block is not None:
                if compacted.block.is_dead(state.first_live_pane):
                    self._doom(added)
                else:
                    state.live[compacted.block.offset] = compacted.block

    def _reported(self, query: bytes, state: QueryState, request: Commit | Checkpoint) -> list[LiveBlock]:
        """The blocks that a request names, each the one that its task has reported."""
        lengths = self._published_lengths(query)
        heads = dict(zip(request.offsets, request.heads, strict=False))
        return [
            self._published(query, state, request.epoch, offset, lengths, heads.get(offset))
            for offset in request.offsets
        ]

    def _published_lengths(self, query: bytes) -> dict[int, int]:
        # Not the committed ones: what an earlier run has left may be doomed, and go as soon as it is unpinned.
        return {
            offset: length
            for offset, length, state, _, owner, _ in self._arena.blocks()
            if owner == query and state == _PUBLISHED
        }

    def _published(
        self, query: bytes, state: QueryState, epoch: int, offset: int, lengths: dict[int, int], crc: int | None
    ) -> LiveBlock:
        if offset not in lengths or offset in state.live:
            raise InvalidRequestError(f"commit of epoch {epoch}: no new block of this query lies at {offset}")
        head = _native.Head(self._arena.view(offset, lengths[offset]))
        if head.query != query or head.epoch != epoch or head.incarnation != self._incarnation:
            raise InvalidRequestError(
                f"commit of epoch {epoch}: the block at {offset} is of epoch {head.epoch} and query {head.query.hex()}"
            )
        if crc is not None and head_crc(self._arena.view(offset, head.head_length)) != crc:
            raise InvalidRequestError(
                f"commit of epoch {epoch}: the block at {offset} is not the one that its task has reported, but a "
                f"later one, of attempt {head.attempt}"
            )
        if head.fingerprint != state.plan.fingerprint:
            raise InvalidRequestError(f"commit of epoch {epoch}: the block at {offset} was made by another plan")
        return self._block(self._arena.view(offset, head.head_length))

    def _block(self, head: Any) -> LiveBlock:
        raw = bytes(head)
        parsed = _native.Head(raw)
        return LiveBlock(parsed.arena_offset, parsed.length, raw, tuple(parsed.panes))

    def _heads(self, state: QueryState) -> list[str]:
        return [base64.b64encode(state.live[offset].head).decode() for offset in sorted(state.live)]

    def _room(self) -> dict[str, int]:
        return {"used_bytes": self._arena.used_bytes, "arena_bytes": self._arena.size}

    def _forget(self, state: QueryState) -> None:
        self._retire(state, list(state.live))
        if state.compacted is not None:
            self._doom(state.compacted.offsets())

    def _retire(self, state: QueryState, offsets: list[int]) -> None:
        for offset in offsets:
            del state.live[offset]
        self._doom(offsets)

    def _doom(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            if self._pins[offset]:
                self._doomed.add(offset)
            else:
                del self._pins[offset]
                self._free(offset)

    def _unpin(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._pins[offset] -= 1
            if not self._pins[offset]:
                del self._pins[offset]
                if offset in self._doomed:
                    self._doomed.remove(offset)
                    self._free(offset)

    def _free(self, offset: int) -> None:
        self._arena.free(offset)
        self.counters["freed"] += 1
