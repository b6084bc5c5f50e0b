"""Folding blocks in the background, and the sweep of what dead and late attempts leave."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pyslash import _native
from pyslash.agent.compaction.compactor import SWEEP_SECONDS, Compactor
from pyslash.agent.compaction.folding import MAX_BLOCKS, Folding, choose_inputs
from pyslash.agent.store.block_set import LiveBlock
from pyslash.agent.store.spiller import Spiller, free_bytes
from pyslash.errors import SpillError
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Commit, MakeRoom
from pyslash.protocol.token import query_token
from pyslash.units import AFTER_ALL_PANES, BEYOND_EPOCHS
from tests.agent.blocks import OTHER_QUERY, PLAN, QUERY, attach, merged, write
from tests.transport.in_process import serving


def eventually(holds: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether it comes to hold before the deadline."""
    deadline = time.monotonic() + seconds
    while not (true := holds()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return true


def compactions(client: AgentClient) -> int:
    return int(client.stats()["counters"].get("compactions", 0))


def block(offset: int, length: int, *panes: int) -> LiveBlock:
    return LiveBlock(offset, length, 0, b"", tuple((pane, 1, length // len(panes)) for pane in panes))


def test_few_blocks_are_left_alone() -> None:
    assert choose_inputs([block(i, 100, 5) for i in range(MAX_BLOCKS)], 0) == []


def test_many_blocks_are_folded() -> None:
    blocks = [block(i, 100, 5) for i in range(MAX_BLOCKS + 1)]
    assert sorted(choose_inputs(blocks, 0)) == list(range(MAX_BLOCKS + 1))


def test_a_block_that_dwarfs_the_rest_is_not_rewritten() -> None:
    small = [block(i, 100, 5) for i in range(MAX_BLOCKS + 1)]
    assert sorted(choose_inputs([block(99, 100_000, 5), *small], 0)) == list(range(MAX_BLOCKS + 1))
    assert choose_inputs([block(99, 100_000, 5), *small[1:]], 0) == []


def test_dead_panes_are_dropped_once_they_are_more_than_half() -> None:
    blocks = [block(0, 300, 1, 2, 3), block(1, 300, 3, 4, 5)]
    assert choose_inputs(blocks, 3) == []
    assert choose_inputs(blocks, 4) == [0, 1]


def test_a_fold_is_swapped_in_by_the_next_commit_and_not_before(agent: AgentDescriptor, client: AgentClient) -> None:
    for epoch in range(MAX_BLOCKS + 1):
        before = client.commit(epoch, [write(agent, epoch, [0]).arena_offset], PLAN)
    assert eventually(lambda: compactions(client) == 1)

    # A merge of that epoch may still be reading: all its blocks are there, and the answer to it does not change.
    assert client.live().blocks == before.blocks
    assert client.commit(MAX_BLOCKS, [_native.Head(before.blocks[-1]).arena_offset], PLAN).blocks == before.blocks
    expected = [(0, key, (MAX_BLOCKS + 1) * key) for key in range(100)]
    assert merged(agent, before.blocks, [0]) == expected

    after = client.commit(MAX_BLOCKS + 1, [], PLAN)
    assert len(after.blocks) == 1
    assert merged(agent, after.blocks, [0]) == expected
    assert len(attach(agent).blocks()) == 1
    assert after.used_bytes < before.used_bytes / MAX_BLOCKS * 2


def test_what_the_newest_epoch_has_changed_stays_apart(agent: AgentDescriptor, client: AgentClient) -> None:
    for epoch in range(MAX_BLOCKS + 2):
        newest = write(agent, epoch, [0])
        client.commit(epoch, [newest.arena_offset], PLAN, keeps_changes=True)
    assert eventually(lambda: compactions(client) == 1)
    folded = write(agent, MAX_BLOCKS + 2, [0])
    after = client.commit(MAX_BLOCKS + 2, [folded.arena_offset], PLAN, keeps_changes=True)
    epochs = sorted(_native.Head(head).epoch for head in after.blocks)
    assert epochs == [MAX_BLOCKS + 1, MAX_BLOCKS + 2, BEYOND_EPOCHS]
    assert merged(agent, after.blocks, [0]) == [(0, key, (MAX_BLOCKS + 3) * key) for key in range(100)]


def test_dead_panes_go_with_a_fold(agent: AgentDescriptor, client: AgentClient) -> None:
    head = write(agent, 0, [0, 10, 20])
    client.commit(0, [head.arena_offset], PLAN)
    client.release(20_000_000)
    assert eventually(lambda: compactions(client) == 1)
    reply = client.commit(1, [], PLAN)
    assert [pane for pane, _, _ in _native.Head(reply.blocks[0]).panes] == [20_000_000]
    assert reply.used_bytes < head.length


def test_a_query_that_ends_leaves_no_fold_that_waits_for_its_next_commit(
    agent: AgentDescriptor, client: AgentClient
) -> None:
    for epoch in range(MAX_BLOCKS + 1):
        client.commit(epoch, [write(agent, epoch, [0]).arena_offset], PLAN)
    assert eventually(lambda: compactions(client) == 1)
    client.release(AFTER_ALL_PANES)
    assert attach(agent).blocks() == []


def test_a_fold_that_ends_after_its_query_is_not_kept(secret: bytes, tmp_path: Path) -> None:
    with serving(secret, tmp_path) as agent:
        with AgentClient(agent.descriptor, QUERY, query_token(secret, QUERY)) as client:
            for epoch in range(MAX_BLOCKS + 1):
                client.commit(epoch, [write(agent.descriptor, epoch, [0]).arena_offset], PLAN)
            folding = Folding(agent.state)
            job = folding.begin()
            assert job is not None
            folded = folding.fold(job)
            client.release(AFTER_ALL_PANES)
        folding.end(job, folded)
        assert agent.arena.blocks() == []


def test_a_fold_whose_panes_died_meanwhile_is_not_kept(agent: AgentDescriptor, client: AgentClient) -> None:
    client.commit(0, [write(agent, 0, [0, 10, 20]).arena_offset], PLAN)
    client.release(20_000_000)
    assert eventually(lambda: compactions(client) == 1)
    client.release(30_000_000)
    assert client.commit(1, [], PLAN).blocks == []
    assert attach(agent).blocks() == []


def test_a_new_block_where_a_folded_one_lay_is_kept(agent: AgentDescriptor, client: AgentClient) -> None:
    old = write(agent, 0, [0, 10, 20])
    client.commit(0, [old.arena_offset], PLAN)
    client.release(20_000_000)
    assert eventually(lambda: compactions(client) == 1)
    client.release(30_000_000)  # frees the input, while its fold still waits
    new = write(agent, 1, [30])
    assert new.arena_offset == old.arena_offset
    assert merged(agent, client.commit(1, [new.arena_offset], PLAN).blocks, [30])
    assert [block[0] for block in attach(agent).blocks()] == [new.arena_offset]


def test_a_drop_takes_a_finished_fold_along(agent: AgentDescriptor, client: AgentClient) -> None:
    client.commit(0, [write(agent, 0, [0, 10, 20]).arena_offset], PLAN)
    client.release(20_000_000)
    assert eventually(lambda: compactions(client) == 1)
    client.drop()
    assert attach(agent).blocks() == []


def test_late_blocks_of_committed_epochs_and_of_dropped_queries_are_swept(
    agent: AgentDescriptor, client: AgentClient
) -> None:
    client.commit(3, [], PLAN)
    write(agent, 2, [0])  # published by an attempt that lost, after its epoch's commit
    current = write(agent, 4, [0])
    assert eventually(lambda: len(attach(agent).blocks()) == 1, 3 * SWEEP_SECONDS)
    assert attach(agent).blocks()[0][0] == current.arena_offset
    client.drop()
    write(agent, 4, [0])
    assert eventually(lambda: attach(agent).blocks() == [], 3 * SWEEP_SECONDS)


def test_what_a_killed_writer_allocated_is_swept(agent: AgentDescriptor) -> None:
    program = (
        "import os, sys\n"
        "from pyslash import _native\n"
        "fd = os.open(sys.argv[1], os.O_RDWR)\n"
        "arena = _native.Arena.attach(fd, bytes.fromhex(sys.argv[2]))\n"
        "arena.allocate(1 << 20, bytes.fromhex(sys.argv[3]), 0)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program, agent.arena_path, agent.incarnation, QUERY.hex()], env=os.environ)
    assert eventually(lambda: attach(agent).blocks() == [], 3 * SWEEP_SECONDS)


def test_what_found_no_room_is_not_folded_again_at_each_commit(secret: bytes, tmp_path: Path) -> None:
    with serving(secret, tmp_path, 8 << 20) as agent:
        state, arena = agent.state, agent.arena
        heads = [write(agent.descriptor, 0, [0], range(20_000), attempt=i) for i in range(MAX_BLOCKS + 1)]
        state.commit(QUERY, Commit(0, [head.arena_offset for head in heads], PLAN))
        _, largest = free_bytes(arena)
        ballast = arena.allocate(largest, OTHER_QUERY, 0)
        compactor = Compactor(state)
        for _ in range(3):
            compactor.fold()
            assert state.counters["failed compactions"] == 1
        arena.free(ballast)
        compactor.fold()
        assert (state.counters["compactions"], state.counters["failed compactions"]) == (1, 1)


def test_leases_end_by_the_clock_also_where_nobody_connects(secret: bytes, tmp_path: Path) -> None:
    ended: list[float] = []
    with serving(secret, tmp_path) as agent:
        compactor = Compactor(agent.state, lambda: ended.append(time.monotonic()), 0.01)
        compactor.start()
        assert eventually(lambda: len(ended) > 2)
        # Nor does one sweep follow the other more seldom because there is something to fold all the time.
        before = len(ended)
        assert eventually(lambda: compactor.look() is None and len(ended) > before + 2)
        compactor.end()
        compactor.join()


def test_a_query_whose_fold_fails_keeps_no_other_from_its_own(
    secret: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(directory: str, size: int) -> None:
        raise SpillError(f"{size} bytes are not free")

    with serving(secret, tmp_path) as agent:
        state = agent.state

        def commit(query: bytes) -> None:
            heads = [write(agent.descriptor, 0, [0], query=query, attempt=i) for i in range(MAX_BLOCKS + 1)]
            state.commit(query, Commit(0, [head.arena_offset for head in heads], PLAN))

        commit(QUERY)
        Spiller(state).make(QUERY, MakeRoom(1, 0, agent.arena.capacity, str(tmp_path), 1 << 30))
        assert len(state.holding.disk) == MAX_BLOCKS + 1
        commit(OTHER_QUERY)
        monkeypatch.setattr("pyslash.agent.store.spill.scratch_arena", refuse)
        Compactor(state).fold()
        assert (state.counters["compactions"], state.counters["failed compactions"]) == (1, 1)
