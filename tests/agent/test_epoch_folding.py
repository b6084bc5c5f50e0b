"""An epoch's blocks become few before anybody has read them, and hold what they held."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from pyslash import _native
from pyslash.cluster.agent_group import AgentGroup
from pyslash.cluster.folds import FoldFigures, Folds
from pyslash.errors import ArenaFullError, FencedError, InvalidRequestError
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Fold
from pyslash.state.files.block_head import head_crc
from pyslash.state.receipt import Receipt
from tests.agent.blocks import PLAN, QUERY, attach, merged, write

EPOCH = 3


def receipts_of(agent: AgentDescriptor, keys: list[range]) -> list[Receipt]:
    """Blocks of one epoch, as its tasks report them."""
    arena, found = attach(agent), []
    for of_task in keys:
        head = write(agent, EPOCH, [0, 10], keys=of_task)
        raw = bytes(arena.view(head.arena_offset, head.head_length))
        found.append(Receipt(agent, _native.Head(raw), raw))
    return found


@pytest.fixture
def folds(secret: bytes, agent: AgentDescriptor) -> Folds:
    group = AgentGroup(QUERY, secret, 20)
    group.add_agents([agent])
    return Folds(group, PLAN, 1, 20, most_blocks=4)


def test_what_comes_out_is_what_went_in(agent: AgentDescriptor, client: AgentClient, folds: Folds) -> None:
    before = receipts_of(agent, [range(20_000)] * 6)
    expected = merged(agent, [one.raw_head for one in before], [0, 10])
    after, figures = folds.fold(EPOCH, before)
    assert len(after) < len(before) == figures.folded
    assert figures.folded_into_bytes == sum(one.head.length for one in after) < figures.folded_bytes / 4
    assert merged(agent, [one.raw_head for one in after], [0, 10]) == expected
    assert min(one.head.prefix_ranges for one in after) >= len(after) > 1  # a merge task can read one of them alone
    offsets = [one.head.arena_offset for one in after]
    live = client.commit(EPOCH, offsets, PLAN, 1, [head_crc(one.raw_head) for one in after])
    assert sorted(live.blocks) == sorted(one.raw_head for one in after)
    assert {_native.Head(head).epoch for head in live.blocks} == {EPOCH}
    # Nothing is left of what was folded.
    assert {block[0] for block in attach(agent).blocks() if block[4] == QUERY} == set(offsets)


def test_few_blocks_stay_as_they_are(agent: AgentDescriptor, folds: Folds) -> None:
    before = receipts_of(agent, [range(100)] * 4)
    assert folds.fold(EPOCH, before) == (before, FoldFigures())


def test_where_tasks_have_no_key_in_common_epochs_go_without(agent: AgentDescriptor, folds: Folds) -> None:
    before = receipts_of(agent, [range(1000 * task, 1000 * (task + 1)) for task in range(6)])
    assert folds.fold(EPOCH, before)[1].folded == 6
    again = receipts_of(agent, [range(1000)] * 6)
    assert [folds.fold(EPOCH, again)[1].folded for _ in range(16)] == [0] * 16
    assert folds.fold(EPOCH, again)[1].folded == 6


def filled(arena: _native.Arena) -> Iterator[int]:
    """Blocks that take all the room there is."""
    with suppress(ArenaFullError):
        while True:
            yield arena.allocate(64 << 10, QUERY, EPOCH)


def test_a_full_arena_leaves_blocks_as_they_are(agent: AgentDescriptor, client: AgentClient, folds: Folds) -> None:
    before = receipts_of(agent, [range(20_000)] * 6)
    arena = attach(agent)
    fillers = list(filled(arena))
    expected = merged(agent, [one.raw_head for one in before], [0, 10])
    assert folds.fold(EPOCH, before) == (before, FoldFigures())
    assert merged(agent, [one.raw_head for one in before], [0, 10]) == expected
    for offset in fillers:
        arena.free(offset)
    assert folds.fold(EPOCH, before)[1].folded == 6


def test_only_what_tasks_have_reported_is_folded(agent: AgentDescriptor, client: AgentClient) -> None:
    one, other = receipts_of(agent, [range(100)] * 2)
    offsets = [one.head.arena_offset, other.head.arena_offset]
    with pytest.raises(InvalidRequestError, match="not the one that its task has reported"):
        client.fold(Fold(EPOCH, offsets, PLAN, 2, [head_crc(one.raw_head), 1]), 20)
    with pytest.raises(InvalidRequestError, match="is of epoch"):
        client.fold(Fold(EPOCH + 1, offsets, PLAN, 2, []), 20)
    client.commit(EPOCH, offsets, PLAN, 2)
    with pytest.raises(InvalidRequestError, match="no new block"):
        client.fold(Fold(EPOCH, offsets, PLAN, 2, []), 20)
    with pytest.raises(FencedError):
        client.fold(Fold(EPOCH, offsets, PLAN, 1, []), 20)
