"""Agents write their blocks of an epoch into the arenas of their standbys, which may be full."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyslash._native import Head
from pyslash.cluster.agent_group import AgentGroup
from pyslash.cluster.replicas import Replicas
from pyslash.cluster.room import Room
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.state.receipt import Receipt
from pyslash.state.version import StateVersion
from pyslash.units import Epoch, Run
from tests.agent.blocks import PLAN, QUERY, attach, write
from tests.agent.conftest import MIB, Pair


@pytest.fixture
def group(secret: bytes) -> Iterator[AgentGroup]:
    """The agents of a query."""
    made = AgentGroup(QUERY, secret, 20)
    yield made
    made.close()


def receipt(agent: AgentDescriptor, epoch: int, keys: int) -> Receipt:
    """What a task says that has written a block of so many keys."""
    head = write(agent, epoch, [0], keys=range(keys))
    raw = bytes(attach(agent).view(head.arena_offset, head.head_length))
    return Receipt(agent, Head(raw), raw)


def test_a_full_standby_spills_and_only_who_had_no_room_writes_again(
    start: Callable[..., Pair], group: AgentGroup, tmp_path: Path
) -> None:
    (large, of_large), (small, of_small) = start(), start(arena_bytes=16 * MIB)
    group.add_agents([large, small])
    for client, keys in ((of_large, 100), (of_small, 500_000)):
        client.commit(0, [receipt(client.descriptor, 0, keys).head.arena_offset], PLAN, 1)
    version = StateVersion()
    room = Room(group, version, Run(1), (str(tmp_path), 64 * MIB), 20)
    replicas = Replicas(group, version, room, PLAN, Run(1), 20)
    written = [receipt(large, 1, 200_000), receipt(small, 1, 100)]
    standbys, size = replicas.send(Epoch(1), written, "auto")
    assert standbys == {large.incarnation: small.incarnation, small.incarnation: large.incarnation}
    assert of_small.stats()["counters"]["spilled blocks"] == 1
    assert (of_large.describe().replicas, of_small.describe().replicas) == (
        {small.incarnation: 1},
        {large.incarnation: 1},
    )
    assert size > sum(one.head.length for one in written)
