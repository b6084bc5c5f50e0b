"""Makes room in a full arena: which blocks go to disk, and how many.

That happens only while no merge of their query runs: the call is for an epoch that is not committed yet, and Spark
starts an epoch only when the sink of the last one is done. The commit of the epoch tells every reader the new places.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyslash._native import Arena
from pyslash.agent.store import spill
from pyslash.agent.store.adopt import relocated
from pyslash.agent.store.block_set import BlockSet, LiveBlock
from pyslash.agent.store.query_state import QueryState
from pyslash.errors import InvalidRequestError, SpillError
from pyslash.protocol.messages import MakeRoom

if TYPE_CHECKING:
    from pyslash.agent.store.state import AgentState

_ALIGNMENT = 64
# Once at it, this part of the arena is made free: the blocks of all tasks of an epoch are to fit.
_GOAL = 0.5
# Whoever reads all blocks, as a snapshot does, is waited for, no longer than a call may take.
_MOST_SECONDS_IN_USE = 60.0


@dataclass(frozen=True)
class _Choice:
    """A block to spill."""

    query: bytes
    block_set: BlockSet
    block: LiveBlock


class Spiller:
    """Spills, one call at a time; the disk is written to without the lock of the agent's state."""

    def __init__(self, state: AgentState) -> None:
        self._state = state

    def make(self, query: bytes, request: MakeRoom) -> dict[str, Any]:
        """Has at least `request.bytes` in one piece free, and half of the arena, or all, if that much can be spilled.

        Raises:
            FencedError: for an earlier run of the query.
            InvalidRequestError: the epoch is committed, so that merges may be reading.
            SpillError: no room could be made; what was spilled is on disk, nothing is lost.
        """
        state = self._state
        goal = state.arena.capacity if request.empties else int(_GOAL * state.arena.capacity)
        deadline = time.monotonic() + _MOST_SECONDS_IN_USE
        with state.spilling:
            while True:
                with state.lock:
                    self._check(query, request)
                    free, largest = free_bytes(state.arena)
                    enough = largest >= request.bytes
                    if enough and free >= goal:
                        break
                    choice = self._choose(query)
                    room_on_disk = request.max_bytes - state.holding.disk.bytes
                    if choice is not None and choice.block.length <= room_on_disk:
                        self._take(choice)
                    elif enough:
                        break
                    elif choice is not None or time.monotonic() >= deadline or not self._are_in_use(query):
                        raise SpillError(self._numbers(request, free, largest, choice))
                if choice is None:
                    time.sleep(0.05)  # polling, up to the deadline
                    continue
                try:
                    self._spill(query, request, choice)
                except SpillError:
                    if enough:
                        break
                    raise
        with state.lock:
            return {"spilled_bytes": state.holding.disk.bytes, "used_bytes": state.arena.used_bytes}

    def _check(self, query: bytes, request: MakeRoom) -> None:
        own = self._state.queries.get(query)
        if own is not None:
            own.check_run(request.run)
            if request.epoch <= own.epoch:
                raise InvalidRequestError(
                    f"room for epoch {request.epoch}: epoch {own.epoch} is committed, and may be read"
                )

    def _choose(self, query: bytes) -> _Choice | None:
        """The coldest block: first replicas, which are never read, then what the window that closes last will read."""
        state = self._state
        own = state.queries.get(query)
        if own is not None:
            for block_set in own.block_sets():
                block_set.swap(state.holding, query, own.first_live_pane)
        found = [
            _Choice(owner, replica, block)
            for owner, known in state.queries.items()
            for replica in known.replicas.values()
            for block in self._spillable(replica)
        ]
        if not found and own is not None:
            found = [_Choice(query, own.own, block) for block in self._spillable(own.own)]
        return max(found, key=lambda choice: (_first_read(choice.block, own), choice.block.length), default=None)

    def _take(self, choice: _Choice) -> None:
        self._state.holding.pin([choice.block.offset])
        choice.block_set.spilling = choice.block

    def _let_go(self, choice: _Choice) -> None:
        choice.block_set.spilling = None
        self._state.holding.unpin([choice.block.offset])

    def _are_in_use(self, query: bytes) -> bool:
        """Whether blocks that might be spilled are read now: by a snapshot, say, which ends."""
        state = self._state
        replicas = [replica for known in state.queries.values() for replica in known.replicas.values()]
        own = [state.queries[query].own] if query in state.queries else []
        return any(state.holding.is_in_use(offset) for one in [*replicas, *own] for offset in one.live)

    def _spillable(self, block_set: BlockSet) -> list[LiveBlock]:
        idle = filter(lambda block: self._state.holding.is_idle(block.offset), block_set.live.values())
        return [block for block in idle if not block_set.is_to_be_replaced(block)]

    def _spill(self, query: bytes, request: MakeRoom, choice: _Choice) -> None:
        state, block = self._state, choice.block
        try:
            offset = state.holding.disk.new_offset()
            head = relocated(block.head, choice.query, state.incarnation, offset)
            body = state.holding.view(block, len(head), block.length - len(head))
            state.holding.disk.directory = request.directory
            data = spill.write(request.directory, [head, body])
            with state.lock:
                # A commit or a later run may have come while the disk was busy: readers have the old place then.
                self._check(query, request)
                if choice.block_set.live.get(block.offset) is block:
                    state.holding.disk.keep(offset, data)
                    choice.block_set.add([LiveBlock.of(head)])
                    choice.block_set.retire(state.holding, [block.offset])
                    state.counters["spilled blocks"] += 1
        finally:
            with state.lock:
                self._let_go(choice)

    def _numbers(self, request: MakeRoom, free: int, largest: int, choice: _Choice | None) -> str:
        arena, disk = self._state.arena, self._state.holding.disk
        wanted = "no block can be spilled" if choice is None else f"{choice.block.length} bytes are to be spilled"
        return (
            f"the arena has no room for {request.bytes} bytes: {free} bytes are free, {largest} of them in one piece, "
            f"of {arena.capacity}; {wanted}, and {disk.bytes} of spark.slash.spill.maxBytes={request.max_bytes} are "
            "on disk already. Raise spark.slash.arena.size or spark.slash.spill.maxBytes, or use more executors"
        )


def _first_read(block: LiveBlock, state: QueryState | None) -> int:
    """When the first window that needs the block closes, as its first live pane: later is colder."""
    first_live = state.first_live_pane if state is not None else 0
    return min((pane for pane, _, _ in block.panes if pane >= first_live), default=block.panes[-1][0])


def free_bytes(arena: Arena) -> tuple[int, int]:
    """Bytes of an arena that no block holds: all of them, and the most in one piece."""
    end = arena.size // _ALIGNMENT * _ALIGNMENT
    at, free, largest = end - arena.capacity, 0, 0
    for offset, length in [*(block[:2] for block in arena.blocks()), (end, 0)]:
        gap = offset - at
        free, largest = free + gap, max(largest, gap)
        at = offset + -(-length // _ALIGNMENT) * _ALIGNMENT
    return free, largest
