"""What an agent serves of an epoch that is not committed: blocks that tasks have published, and nothing else."""

from __future__ import annotations

import pytest

from pyslash.agent.client import AgentClient
from pyslash.agent.descriptor import AgentDescriptor
from pyslash.agent.token import query_token
from pyslash.errors import InvalidRequestError
from tests.agent.blocks import OTHER_QUERY, PLAN, QUERY, attach, write


@pytest.mark.parametrize("via", ["unix", "tcp"])
def test_a_published_block_is_served_until_its_epoch_is_committed_without_it(
    agent: AgentDescriptor, secret: bytes, via: str
) -> None:
    first, second = write(agent, 0, [0]), write(agent, 1, [0])
    with AgentClient(agent, QUERY, query_token(secret, QUERY), via=via) as client:
        for block in (first, second):
            (served,) = client.read(block.arena_offset, [(0, block.length)])
            assert bytes(served) == bytes(attach(agent).view(block.arena_offset, block.length))
        client.commit(0, [], PLAN)
        with pytest.raises(InvalidRequestError, match="no block of this query"):
            client.read(first.arena_offset, [(0, 64)])
        assert client.read(second.arena_offset, [(0, 64)])
        client.discard(1)
        with pytest.raises(InvalidRequestError, match="no block of this query"):
            client.read(second.arena_offset, [(0, 64)])


def test_no_other_query_reads_it_and_no_range_leaves_it(
    agent: AgentDescriptor, client: AgentClient, secret: bytes
) -> None:
    block = write(agent, 0, [0])
    with pytest.raises(InvalidRequestError, match="leaves the block"):
        client.read(block.arena_offset, [(block.length - 64, 128)])
    with (
        AgentClient(agent, OTHER_QUERY, query_token(secret, OTHER_QUERY)) as other,
        pytest.raises(InvalidRequestError, match="no block of this query"),
    ):
        other.read(block.arena_offset, [(0, 64)])


def test_what_is_still_being_written_is_not_served(agent: AgentDescriptor, client: AgentClient) -> None:
    arena = attach(agent)
    offset = arena.allocate(4096, QUERY, 0)
    with pytest.raises(InvalidRequestError, match="no block of this query"):
        client.read(offset, [(0, 64)])
    arena.free(offset)
