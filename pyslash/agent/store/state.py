"""The state of an agent: the arena, and for each query its live committed blocks.

Every method takes the one lock, and waits for nothing else while it holds it.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from pyslash._native import Arena, Plan
from pyslash.agent.store.block_set import Holding
from pyslash.agent.store.own_blocks import OwnBlocks
from pyslash.agent.store.published import reported
from pyslash.agent.store.query_state import QueryState
from pyslash.agent.store.standby import Conceal, Standby
from pyslash.errors import InvalidRequestError, StaleIncarnationError
from pyslash.protocol.messages import Begin, Commit, Discard, Live, Release, Resume
from pyslash.units import AFTER_ALL_PANES, BEFORE_ALL_RUNS, LAST_EPOCH, NO_RUN, ArenaOffset, Run


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
        self._dropped: dict[bytes, Run] = {}  # with the run that held it
        self.counters: Counter[str] = Counter()
        self.holding = Holding(arena, self.counters)
        self.standby = Standby(arena, self.holding, conceal)

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
                    self.standby.check_commit(state, source, request.epoch, reported)
                self._commit(query, state, request)
                for source, _ in request.replicas:
                    self.standby.commit(query, state, source, request.epoch)
                self.standby.forget_older(query, state, request.epoch)
                self.queries[query] = state
                self.counters["commits"] += 1
            return {"freed": state.freed, **self.reply(state, request.known)}

    def live(self, query: bytes, request: Live) -> dict[str, Any]:
        """What is live, as the record of a `VersionEdit`.

        Raises:
            FencedError: a later run holds the state.
        """
        with self.lock:
            state = self.queries.get(query)
            if state is None:
                return {**OwnBlocks().edit_since(0).record(), **self.room()}
            state.check_run(request.run)
            return self.reply(state, request.known)

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
                self.standby.abandon_all(query, state, but_of=request.epoch)
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
                self.standby.abandon_all(query, state)
            self.counters["discards"] += 1
            return {"freed": freed, **self.room()}

    def release(self, query: bytes, request: Release) -> dict[str, Any]:
        """Frees the blocks that hold no pane from `before_pane` on; the other dead panes go with a compaction.

        Where no pane is left the query has ended, and what was stored of an epoch that was never committed goes, too.

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
                if state.first_live_pane == AFTER_ALL_PANES:
                    freed += self.arena.commit(query, max(state.epoch, state.stored), [])
                    self.standby.abandon_all(query, state)
            self.counters["releases"] += 1
            return {"freed": freed, **self.room()}

    def drop(self, query: bytes) -> dict[str, Any]:
        """Frees everything of a query: all runs so far are refused from now on, and late blocks of them are swept."""
        with self.lock:
            state = self.queries.pop(query, None)
            self._dropped[query] = self._dropped.get(query, BEFORE_ALL_RUNS) if state is None else state.run
            freed = self.arena.commit(query, LAST_EPOCH, [])
            if state is not None:
                freed += len(state.own.live)
                self._forget(query, state)
            self.counters["drops"] += 1
            return {"freed": freed, **self.room()}

    def begin(self, query: bytes, request: Begin) -> dict[str, Any]:
        """Lets go of what earlier runs have committed. Until then, blocks of their epochs count as late, and are swept.

        Raises:
            FencedError: a later run holds the state.
        """
        with self.lock:
            self.queries[query] = self.state_for(query, request.plan, request.run)
            return {}

    def sweep(self) -> int:
        """Frees what dead processes left half written, and what late attempts published; returns how many blocks."""
        with self.lock:
            freed = self.arena.reclaim_dead()
            freed += sum(self.arena.commit(query, state.epoch, []) for query, state in self.queries.items())
            freed += sum(self.arena.commit(query, LAST_EPOCH, []) for query in self._dropped)
            self.counters["swept"] += freed
            return int(freed)

    def state_for(self, query: bytes, plan_text: str, run: Run) -> QueryState:
        """The state of a query, as this run may see it; with the lock held. A new query is not stored yet.

        Raises:
            FencedError: a later run holds it.
            InvalidRequestError: the query was dropped, or has another plan.
        """
        if run <= self._dropped.get(query, NO_RUN):
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
        state.own.swap(self.holding, query, state.first_live_pane)
        state.freed = self.arena.commit(query, epoch, sorted(set(request.offsets)))
        state.epoch, state.blocks, state.keeps_changes = epoch, _blocks(request), request.keeps_changes
        state.own.add(blocks)
        state.promoted = {source: at for source, at in state.promoted.items() if at >= epoch}

    def reply(self, state: QueryState, known: int) -> dict[str, Any]:
        """What is live, for who knows that edit, and the room that is left; with the lock held."""
        return {**state.own.edit_since(known).record(), **self.room()}

    def room(self) -> dict[str, int]:
        """What is used; with the lock held."""
        return {
            "used_bytes": self.arena.used_bytes,
            "arena_bytes": self.arena.size,
            "spilled_bytes": self.holding.disk.bytes,
        }

    def _forget(self, query: bytes, state: QueryState) -> None:
        state.own.forget(self.holding)
        self.standby.forget(query, state)


def _blocks(request: Commit) -> frozenset[tuple[ArenaOffset, int | None]]:
    heads: list[int | None] = [*request.heads] or [None] * len(request.offsets)
    return frozenset(zip(request.offsets, heads, strict=False))
