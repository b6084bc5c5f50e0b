"""Replicas: an agent's blocks in another one's arena, committed with the epoch, promoted when their agent is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from pyslash.agent.compaction.compactor import SWEEP_SECONDS
from pyslash.agent.compaction.folding import MAX_BLOCKS
from pyslash.errors import (
    AgentTimeoutError,
    ArenaFullError,
    CorruptBlockError,
    FencedError,
    InvalidRequestError,
)
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Begin, Promote, Replicate, Reserve, Resume, Seal
from pyslash.state.files.block_head import head_crc
from pyslash.units import AFTER_ALL_PANES, BEFORE_ALL_PANES
from tests.agent.blocks import PLAN, QUERY, attach, merged, write
from tests.agent.conftest import Pair, wait_until_gone
from tests.agent.test_compaction import compactions, eventually


def replicate(
    client: AgentClient, to: AgentDescriptor, epoch: int, offsets: list[int], run: int = 1, transport: str = "auto"
) -> int:
    """The epoch's blocks, and with the first epoch all there are."""
    request = Replicate(epoch, offsets, PLAN, run, to.to_json(), transport, epoch == 0)
    return client.replicate(request, 20)


def blocks_at(agent: AgentDescriptor, offsets: list[int]) -> list[list[int]]:
    """[offset, CRC of the head] of blocks in an agent's arena."""
    return [[offset, head_crc(attach(agent).view(offset, 192))] for offset in offsets]


def commit(client: AgentClient, standby: Pair, epoch: int, offsets: list[int], run: int = 1) -> list[bytes]:
    """Commits the epoch in both agents; the live heads of the first."""
    replica = [[client.descriptor.incarnation, blocks_at(client.descriptor, offsets)]]
    standby[1].commit(epoch, [], PLAN, run, replicas=replica)
    return client.commit(epoch, offsets, PLAN, run).blocks


def epoch_of(agent: AgentDescriptor, client: AgentClient, standby: Pair, epoch: int, panes: list[int]) -> list[bytes]:
    """An epoch of one block, from its update to its commit."""
    offsets = [write(agent, epoch, panes).arena_offset]
    replicate(client, standby[0], epoch, offsets)
    return commit(client, standby, epoch, offsets)


def promoted(agent: AgentDescriptor, standby: Pair, epoch: int, blocks: list[list[int]] | None = None) -> list[bytes]:
    """What the standby holds once it has taken the agent's place; `blocks` are the agent's of the epoch."""
    standby[1].resume(Resume(epoch, PLAN, 2, AFTER_ALL_PANES))
    standby[1].promote(Promote(epoch, agent.incarnation, blocks or [], PLAN, 2))
    return standby[1].live(2).blocks


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_a_promoted_replica_is_what_the_lost_agent_held(
    agent: AgentDescriptor, client: AgentClient, standby: Pair, transport: str
) -> None:
    heads = [write(agent, 0, [0, 10], keys=range(9000)), write(agent, 0, [10])]
    offsets = [head.arena_offset for head in heads]
    assert replicate(client, standby[0], 0, offsets, transport=transport) == sum(head.length for head in heads)
    expected = merged(agent, commit(client, standby, 0, offsets), [0, 10])
    assert standby[1].describe().blocks == 0  # nobody sees a replica
    os.kill(agent.pid, 9)
    assert wait_until_gone(agent.pid)
    for _ in range(2):
        assert merged(standby[0], promoted(agent, standby, 0), [0, 10]) == expected


def test_a_replica_follows_every_epoch_folds_and_lets_go_of_dead_panes(
    agent: AgentDescriptor, client: AgentClient, standby: Pair
) -> None:
    for epoch in range(MAX_BLOCKS + 1):
        epoch_of(agent, client, standby, epoch, [0, 10])
    assert eventually(lambda: compactions(standby[1]) == 1)
    client.release(10_000_000, 1)
    standby[1].release(10_000_000, 1)
    live = epoch_of(agent, client, standby, MAX_BLOCKS + 1, [20])
    figures = standby[1].stats()["queries"][QUERY.hex()]
    assert (figures["blocks"], figures["replica_blocks"]) == (0, 2)
    expected = merged(agent, live, [10, 20])
    assert len(expected) == 200
    assert merged(standby[0], promoted(agent, standby, MAX_BLOCKS + 1), [10, 20]) == expected
    standby[1].release(30_000_000, 2)
    assert attach(standby[0]).blocks() == []


def test_a_loss_between_manifest_and_commit_is_promoted_with_its_last_epoch(
    agent: AgentDescriptor, client: AgentClient, standby: Pair
) -> None:
    epoch_of(agent, client, standby, 0, [0])
    replicate(client, standby[0], 1, [write(agent, 1, [0]).arena_offset])
    assert standby[1].describe().replicas == {agent.incarnation: 1}
    assert merged(standby[0], promoted(agent, standby, 1), [0]) == [(0, key, 2 * key) for key in range(100)]


def test_an_epoch_that_was_given_up_is_not_promoted(agent: AgentDescriptor, client: AgentClient, standby: Pair) -> None:
    epoch_of(agent, client, standby, 0, [0])
    replicate(client, standby[0], 1, [write(agent, 1, [0]).arena_offset])
    heads = promoted(agent, standby, 0)  # its manifest was never written: the state is that of epoch 0
    assert merged(standby[0], heads, [0]) == [(0, key, key) for key in range(100)]
    assert len(attach(standby[0]).blocks()) == 1


def test_a_later_run_replaces_what_an_earlier_one_sent(
    agent: AgentDescriptor, client: AgentClient, standby: Pair
) -> None:
    epoch_of(agent, client, standby, 0, [0])
    given_up = write(agent, 1, [0]).arena_offset
    replicate(client, standby[0], 1, [given_up])
    for one in (client, standby[1]):
        one.resume(Resume(0, PLAN, 2, BEFORE_ALL_PANES))
    client.discard(1, 2)
    again = write(agent, 1, [0, 10]).arena_offset
    replicate(client, standby[0], 1, [again], run=2)
    live = commit(client, standby, 1, [again], run=2)
    assert len(attach(standby[0]).blocks()) == 2
    assert merged(standby[0], promoted(agent, standby, 1), [0, 10]) == merged(agent, live, [0, 10])


def test_another_attempt_s_block_in_the_same_place_is_not_promoted(
    agent: AgentDescriptor, client: AgentClient, standby: Pair
) -> None:
    epoch_of(agent, client, standby, 0, [0])
    offset = write(agent, 1, [0]).arena_offset
    replicate(client, standby[0], 1, [offset])
    [[_, head]] = blocks_at(agent, [offset])
    with pytest.raises(InvalidRequestError, match="all blocks of epoch 1"):
        promoted(agent, standby, 1, [[offset, head ^ 1]])
    assert len(merged(standby[0], promoted(agent, standby, 1, [[offset, head]]), [0])) == 100


def test_a_new_standby_gets_the_whole_share(
    agent: AgentDescriptor, client: AgentClient, standby: Pair, start: Callable[..., Pair]
) -> None:
    epoch_of(agent, client, standby, 0, [0])
    other = start()
    new = write(agent, 1, [10])
    client.replicate(Replicate(1, [new.arena_offset], PLAN, 1, other[0].to_json(), "auto", True), 20)
    live = commit(client, other, 1, [new.arena_offset])
    assert merged(other[0], promoted(agent, other, 1), [0, 10]) == merged(agent, live, [0, 10])


def test_a_share_is_replicated_between_epochs_with_what_was_taken_over(
    agent: AgentDescriptor, client: AgentClient, standby: Pair, start: Callable[..., Pair]
) -> None:
    epoch_of(agent, client, standby, 0, [0])
    standby[1].resume(Resume(0, PLAN, 2, BEFORE_ALL_PANES))
    standby[1].promote(Promote(0, agent.incarnation, [], PLAN, 2))
    expected = merged(standby[0], standby[1].live(2).blocks, [0])
    last = start()
    settled = Replicate(0, [], PLAN, 2, last[0].to_json(), "auto", True, settled=True)
    assert standby[1].replicate(settled, 20) > 0
    assert last[1].describe().settled == {standby[0].incarnation: (0, frozenset({agent.incarnation}))}
    with pytest.raises(InvalidRequestError, match="here already"):
        standby[1].replicate(settled, 20)
    with pytest.raises(InvalidRequestError, match="the last one that was committed is 0"):
        standby[1].replicate(Replicate(1, [], PLAN, 2, last[0].to_json(), "auto", True, settled=True), 20)
    last[1].resume(Resume(0, PLAN, 3, BEFORE_ALL_PANES))
    for _ in range(2):
        last[1].promote(Promote(0, standby[0].incarnation, [], PLAN, 3))
        heads = last[1].live(3).blocks
        assert merged(last[0], heads, [0]) == expected
    assert last[1].describe().promoted == {standby[0].incarnation: 0, agent.incarnation: 0}


def test_a_commit_without_its_replica_is_refused_and_changes_nothing(
    agent: AgentDescriptor, client: AgentClient, standby: Pair
) -> None:
    epoch_of(agent, client, standby, 0, [0])
    missing = [[agent.incarnation, [[1 << 20, 7]]]]
    own = write(standby[0], 1, [0]).arena_offset
    with pytest.raises(InvalidRequestError, match="no replica"):
        standby[1].commit(1, [own], PLAN, 1, replicas=missing)
    assert standby[1].describe().epoch == 0
    with pytest.raises(InvalidRequestError, match="no replica"):
        standby[1].promote(Promote(3, agent.incarnation, [[64, 7]], PLAN, 1))


def test_bytes_that_did_not_arrive_are_not_sealed(agent: AgentDescriptor, standby: Pair) -> None:
    place = standby[1].act("reserve", Reserve(0, agent.incarnation, [[0, 4096, 7]], PLAN, 1, True))["offsets"][0]
    standby[1].write(place, bytes(4096))
    with pytest.raises(CorruptBlockError):
        standby[1].act("seal", Seal(0, agent.incarnation, PLAN, 1))


def test_a_single_flipped_bit_of_a_segment_is_not_sealed(
    agent: AgentDescriptor, client: AgentClient, standby: Pair
) -> None:
    head = write(agent, 0, [0])
    replicate(client, standby[0], 0, [head.arena_offset])
    [(place, length, *_)] = attach(standby[0]).blocks()
    whole = bytearray(attach(standby[0]).view(place, length))
    standby[1].resume(Resume(5, PLAN, 2, BEFORE_ALL_PANES))  # as of another epoch: lets go of what was on its way
    standby[1].act("reserve", Reserve(0, agent.incarnation, [[head.arena_offset, length, 7]], PLAN, 2, True))
    assert [entry[0] for entry in attach(standby[0]).blocks()] == [place]
    whole[-100] ^= 1
    standby[1].write(place, whole)
    with pytest.raises(CorruptBlockError, match="segment"):
        standby[1].act("seal", Seal(0, agent.incarnation, PLAN, 2))


def test_a_standby_without_room_keeps_nothing_and_says_so(
    agent: AgentDescriptor, client: AgentClient, start: Callable[..., Pair]
) -> None:
    small = start(arena_bytes=2 << 20)
    head = write(agent, 0, [0], keys=range(100_000))
    with pytest.raises(ArenaFullError, match=r"spark\.slash\.arena\.size"):
        replicate(client, small[0], 0, [head.arena_offset])
    assert attach(small[0]).blocks() == []


def test_an_earlier_run_is_fenced_and_a_later_one_that_restores_forgets_replicas(
    agent: AgentDescriptor, client: AgentClient, standby: Pair
) -> None:
    epoch_of(agent, client, standby, 0, [0])
    standby[1].resume(Resume(0, PLAN, 2, BEFORE_ALL_PANES))
    with pytest.raises(FencedError, match=r"run 1 .* run 2"):
        replicate(client, standby[0], 1, [write(agent, 1, [0]).arena_offset])
    standby[1].commit(1, [], PLAN, 3)
    assert standby[1].describe().replicas == {}
    assert attach(standby[0]).blocks() == []


def test_an_epoch_that_a_later_run_computes_again_is_not_swept(agent: AgentDescriptor, client: AgentClient) -> None:
    """Of a run that begins with nothing, although an earlier one has committed that epoch here."""
    client.commit(0, [write(agent, 0, [0]).arena_offset], PLAN, 1)
    client.begin(Begin(PLAN, 2))
    again = write(agent, 0, [0]).arena_offset
    time.sleep(1.5 * SWEEP_SECONDS)
    assert len(client.commit(0, [again], PLAN, 2).blocks) == 1
    with pytest.raises(FencedError):
        client.begin(Begin(PLAN, 1))


def test_a_resumed_agent_goes_on_with_what_it_holds(agent: AgentDescriptor, client: AgentClient) -> None:
    before = client.commit(0, [write(agent, 0, [0]).arena_offset], PLAN, 1).blocks
    client.resume(Resume(0, PLAN, 2, BEFORE_ALL_PANES))
    assert client.live(2).blocks == before
    assert client.commit(1, [write(agent, 1, [10]).arena_offset], PLAN, 2).blocks[:1] == before
    with pytest.raises(InvalidRequestError, match="epoch 1"):
        client.resume(Resume(0, PLAN, 3, BEFORE_ALL_PANES))


def test_calls_that_come_late_or_twice_change_nothing(
    agent: AgentDescriptor, client: AgentClient, standby: Pair
) -> None:
    epoch_of(agent, client, standby, 0, [0])
    offset = write(agent, 1, [10]).arena_offset
    block = blocks_at(agent, [offset])
    late = Replicate(1, [offset], PLAN, 1, standby[0].to_json(), "auto", False)
    client.replicate(late, 20)
    for epoch in (0, 1):
        with pytest.raises(InvalidRequestError, match="here already"):
            standby[1].act("reserve", Reserve(epoch, agent.incarnation, [[64, 64, 7]], PLAN, 1, True))
    standby[1].act("seal", Seal(1, agent.incarnation, PLAN, 1))
    live = commit(client, standby, 1, [offset])
    with pytest.raises(InvalidRequestError):
        standby[1].act("seal", Seal(1, agent.incarnation, PLAN, 1))
    with pytest.raises(InvalidRequestError):
        client.replicate(late, 20)
    heads = promoted(agent, standby, 1, block)
    expected = merged(agent, live, [0, 10])
    assert merged(standby[0], heads, [0, 10]) == expected
    standby[1].resume(Resume(1, PLAN, 2, BEFORE_ALL_PANES))
    assert merged(standby[0], promoted(agent, standby, 1, block), [0, 10]) == expected
    standby[1].commit(2, [], PLAN, 2)
    with pytest.raises(InvalidRequestError, match="epoch 2 has been committed"):
        promoted(agent, standby, 1)


def test_an_agent_does_not_go_on_without_panes_that_are_needed(agent: AgentDescriptor, client: AgentClient) -> None:
    client.commit(0, [write(agent, 0, [0]).arena_offset], PLAN)
    client.release(AFTER_ALL_PANES)
    assert client.describe().first_live_pane == AFTER_ALL_PANES
    with pytest.raises(InvalidRequestError, match="released"):
        client.resume(Resume(0, PLAN, 1, 0))


def test_a_drop_frees_replicas(agent: AgentDescriptor, client: AgentClient, standby: Pair) -> None:
    epoch_of(agent, client, standby, 0, [0])
    assert len(attach(standby[0]).blocks()) == 1
    standby[1].drop()
    assert attach(standby[0]).blocks() == []
    assert standby[1].stats()["queries"] == {}


def test_a_query_that_has_ended_leaves_no_connection_to_its_standby(
    agent: AgentDescriptor, client: AgentClient, standby: Pair
) -> None:
    epoch_of(agent, client, standby, 0, [0])
    before = standby[1].stats()["connections"]
    client.release(AFTER_ALL_PANES, 1)
    assert eventually(lambda: standby[1].stats()["connections"] < before)


def test_a_standby_has_as_long_as_the_driver_says(agent: AgentDescriptor, client: AgentClient, standby: Pair) -> None:
    offset = write(agent, 0, [0]).arena_offset
    asked = Replicate(0, [offset], PLAN, 1, standby[0].to_json(), "tcp", True, timeout_seconds=1)
    os.kill(standby[0].pid, signal.SIGSTOP)
    try:
        with pytest.raises(AgentTimeoutError, match=r"reserve: no answer within 1 s"):
            client.replicate(asked, 20)
    finally:
        os.kill(standby[0].pid, signal.SIGCONT)


def test_who_is_no_longer_the_standby_lets_go_of_the_share(
    agent: AgentDescriptor, client: AgentClient, standby: Pair, start: Callable[..., Pair]
) -> None:
    epoch_of(agent, client, standby, 0, [0])
    other = start()
    new = write(agent, 1, [10])
    client.replicate(Replicate(1, [new.arena_offset], PLAN, 1, other[0].to_json(), "auto", True), 20)
    standby[1].commit(1, [], PLAN, 1)
    commit(client, other, 1, [new.arena_offset])
    assert standby[1].describe().replicas == {}
    assert attach(standby[0]).blocks() == []
    assert other[1].describe().replicas == {agent.incarnation: 1}
