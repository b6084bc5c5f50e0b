"""A compaction that has ended and waits for its commit, while the blocks that it has read go, move, or are followed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyslash import _native
from pyslash.agent.compaction.folding import MAX_BLOCKS, Folding
from pyslash.agent.store import spill
from pyslash.agent.store.block_set import LiveBlock
from pyslash.agent.store.lent import Lent
from pyslash.agent.store.query_state import QueryState, Replica
from pyslash.agent.store.spiller import Spiller, free_bytes
from pyslash.agent.store.state import AgentState
from pyslash.protocol.messages import Commit, MakeRoom, Promote, Release, Snapshot
from pyslash.units import BEYOND_EPOCHS
from tests.agent.blocks import OTHER_QUERY, PLAN, QUERY, SECOND, merged_from, rows

LOST = "00" * 16  # an agent
ARENA_BYTES = 4 << 20
KEYS = range(10_000)  # nine blocks of them are more than half of the arena


@pytest.fixture
def state() -> Iterator[AgentState]:
    fd = os.memfd_create("test", os.MFD_CLOEXEC)
    arena = _native.Arena.create(fd, ARENA_BYTES, bytes(16))
    yield AgentState(arena, fd, bytes(16))
    arena.close()
    os.close(fd)


def published(state: AgentState, pane: int, query: bytes = QUERY, epoch: int = BEYOND_EPOCHS) -> LiveBlock:
    """A block of one pane (its start in seconds)."""
    accumulator = _native.Accumulator(_native.Plan(PLAN), -(1 << 62))
    accumulator.add(rows([pane], KEYS))
    return LiveBlock.of(accumulator.seal(state.arena, query, epoch, 0))


def compact(state: AgentState) -> None:
    """From its choice to its end, before the commit that swaps it in."""
    folding = Folding(state)
    job = folding.begin()
    assert job is not None
    folding.end(job, folding.fold(job))


def sums(state: AgentState, query: bytes, pane: int) -> list[tuple[int, int, int]]:
    """(pane in seconds, key, sum) of the query's own blocks."""
    live = {block.offset: block for block in state.queries[query].own.live.values()}
    heads = [block.head for block in live.values()]
    return merged_from(lambda head, at, size: state.holding.view(live[head.arena_offset], at, size), heads, [pane])


def test_who_takes_the_place_of_a_released_block_is_not_replaced(state: AgentState) -> None:
    state.commit(QUERY, Commit(0, [published(state, 0, epoch=0).offset for _ in range(MAX_BLOCKS + 1)], PLAN, 1))
    compact(state)
    places = set(state.queries[QUERY].own.live)
    state.release(QUERY, Release(10 * SECOND, 1))  # all of them are dead before the compaction is swapped in
    replica = Replica(epoch=0)
    replica.add([published(state, 10)])
    assert set(replica.live) <= places
    state.queries[QUERY].replicas[LOST] = replica
    with state.lock:
        state.standby.promote(QUERY, state.queries[QUERY], Promote(0, LOST, [], PLAN, 1))
    state.commit(QUERY, Commit(1, [], PLAN, 1))
    assert sums(state, QUERY, 10) == [(10, key, key) for key in KEYS]


def test_what_is_to_be_replaced_is_not_spilled(state: AgentState, tmp_path: Path) -> None:
    """Of another query's replica: nothing of it is committed when room is made."""
    replica = Replica(epoch=0)
    replica.add([published(state, 0, OTHER_QUERY) for _ in range(MAX_BLOCKS + 1)])
    state.queries[OTHER_QUERY] = QueryState(_native.Plan(PLAN), PLAN, 1, epoch=0, replicas={LOST: replica})
    compact(state)
    Spiller(state).make(QUERY, MakeRoom(0, 1, 1, str(tmp_path), 1 << 30))
    with state.lock:
        state.standby.promote(OTHER_QUERY, state.queries[OTHER_QUERY], Promote(0, LOST, [], PLAN, 1))
    assert sums(state, OTHER_QUERY, 0) == [(0, key, (MAX_BLOCKS + 1) * key) for key in KEYS]


@pytest.fixture
def at_the_disk(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What happens, once, while a block is written to disk."""
    events: list[Callable[[], None]] = []
    write = spill.write

    def written(directory: str, parts: list[Any]) -> Any:
        while events:
            events.pop()()
        return write(directory, parts)

    monkeypatch.setattr(spill, "write", written)
    return events


def test_what_is_on_its_way_to_disk_is_not_folded(
    state: AgentState, tmp_path: Path, at_the_disk: list[Callable[[], None]]
) -> None:
    state.commit(QUERY, Commit(0, [published(state, 0, epoch=0).offset for _ in range(MAX_BLOCKS + 2)], PLAN, 1))
    at_the_disk.append(lambda: compact(state))
    Spiller(state).make(QUERY, MakeRoom(1, 1, 1, str(tmp_path), 1 << 30))
    state.commit(QUERY, Commit(1, [], PLAN, 1))
    assert state.counters["spilled blocks"] > 0
    assert state.counters["compactions"] == 1
    assert sums(state, QUERY, 0) == [(0, key, (MAX_BLOCKS + 2) * key) for key in KEYS]


def test_what_is_promoted_on_its_way_to_disk_stays_in_the_arena(
    state: AgentState, tmp_path: Path, at_the_disk: list[Callable[[], None]]
) -> None:
    replica = Replica(epoch=0)
    replica.add([published(state, 0, OTHER_QUERY) for _ in range(MAX_BLOCKS + 1)])
    state.queries[OTHER_QUERY] = QueryState(_native.Plan(PLAN), PLAN, 1, epoch=0, replicas={LOST: replica})

    def promote() -> None:
        with state.lock:
            state.standby.promote(OTHER_QUERY, state.queries[OTHER_QUERY], Promote(0, LOST, [], PLAN, 1))

    at_the_disk.append(promote)
    Spiller(state).make(QUERY, MakeRoom(0, 1, 1, str(tmp_path), 1 << 30))
    assert at_the_disk == []
    assert state.counters["spilled blocks"] == 0
    assert sums(state, OTHER_QUERY, 0) == [(0, key, (MAX_BLOCKS + 1) * key) for key in KEYS]


def test_room_waits_for_a_snapshot_that_reads_all_blocks(state: AgentState, tmp_path: Path) -> None:
    state.commit(QUERY, Commit(0, [published(state, 0, epoch=0).offset for _ in range(MAX_BLOCKS - 2)], PLAN, 1))
    _, largest = free_bytes(state.arena)
    reading = Lent(state).committed(QUERY, Snapshot(PLAN, 1, str(tmp_path), "snapshot", 1))
    reading.__enter__()
    ended = threading.Timer(0.3, lambda: reading.__exit__(None, None, None))
    ended.start()
    Spiller(state).make(QUERY, MakeRoom(1, 1, largest + 1, str(tmp_path), 1 << 30))
    assert free_bytes(state.arena)[1] > largest
    ended.join()
