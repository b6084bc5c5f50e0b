"""What an agent serves of an epoch that is not committed: published blocks of rows, and nothing else."""

from __future__ import annotations

import pytest

from pyslash import _native
from pyslash.errors import InvalidRequestError
from pyslash.plan.spec import PlanSpec
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.token import query_token
from tests.agent.blocks import OTHER_QUERY, PLAN, QUERY, attach, rows, write


def write_rows(agent: AgentDescriptor, epoch: int) -> _native.Head:
    """A published block of a hundred rows."""
    partitioned = _native.Accumulator(_native.Plan(PlanSpec.decode(PLAN).of_rows(2).text), 0)
    partitioned.add(rows([0], range(100)))
    return _native.Head(partitioned.seal(attach(agent), QUERY, epoch, 0))


@pytest.mark.parametrize("via", ["unix", "tcp"])
def test_a_published_block_is_served_until_its_epoch_is_committed_without_it(
    agent: AgentDescriptor, secret: bytes, via: str
) -> None:
    first, second = write_rows(agent, 0), write_rows(agent, 1)
    with AgentClient(agent, QUERY, query_token(secret, QUERY), via=via) as client:
        for block in (first, second):
            (served,) = client.read(block.arena_offset, [(0, block.length)])
            assert bytes(served) == bytes(attach(agent).view(block.arena_offset, block.length))
        client.commit(0, [], PLAN)
        with pytest.raises(InvalidRequestError, match="no block to read"):
            client.read(first.arena_offset, [(0, 64)])
        assert client.read(second.arena_offset, [(0, 64)])
        client.discard(1)
        with pytest.raises(InvalidRequestError, match="no block to read"):
            client.read(second.arena_offset, [(0, 64)])


def test_no_other_query_reads_it_and_no_range_leaves_it(
    agent: AgentDescriptor, client: AgentClient, secret: bytes
) -> None:
    block = write_rows(agent, 0)
    with pytest.raises(InvalidRequestError, match="leaves the block"):
        client.read(block.arena_offset, [(block.length - 64, 128)])
    with (
        AgentClient(agent, OTHER_QUERY, query_token(secret, OTHER_QUERY)) as other,
        pytest.raises(InvalidRequestError, match="no block to read"),
    ):
        other.read(block.arena_offset, [(0, 64)])


def test_neither_state_nor_what_is_still_being_written_is_served(agent: AgentDescriptor, client: AgentClient) -> None:
    arena, state = attach(agent), write(agent, 0, [0])
    unfinished = arena.allocate(4096, QUERY, 0)
    for offset in (state.arena_offset, unfinished):
        with pytest.raises(InvalidRequestError, match="no block to read"):
            client.read(offset, [(0, 64)])
    arena.free(unfinished)
