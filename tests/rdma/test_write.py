"""RDMA WRITE of a replica into what the agent has reserved, and nowhere else."""

from __future__ import annotations

import os
from typing import Any

import pytest

from pyslash.errors import InvalidRequestError, RemoteAccessError
from pyslash.protocol.messages import Conceal, Expose
from pyslash.rdma.transfer import Piece
from pyslash.transport.verbs import VerbsTransport
from tests.agent.blocks import OTHER_QUERY, QUERY
from tests.rdma.conftest import deadline
from tests.transport.in_process import InProcess

pytestmark = pytest.mark.rdma


@pytest.mark.parametrize("size", [1, 64, 4096, (4 << 20) + 1])
def test_bytes_arrive_where_they_were_reserved_for(own: InProcess, transport: VerbsTransport, size: int) -> None:
    data = os.urandom(size)
    offsets = [own.arena.allocate(length, QUERY, 0) for length in (64, size, 64)]
    around = [bytes(own.arena.view(offset, 64)) for offset in (offsets[0], offsets[2])]
    transport.write(own.descriptor, offsets[1], data)
    assert bytes(own.arena.view(offsets[1], size)) == data
    assert [bytes(own.arena.view(offset, 64)) for offset in (offsets[0], offsets[2])] == around
    assert (transport.counters.writes, transport.counters.bytes_written) == (1, size)


def test_what_is_not_reserved_gets_no_key(own: InProcess, transport: VerbsTransport) -> None:
    reserved = own.arena.allocate(4096, QUERY, 0)
    published = own.arena.allocate(4096, QUERY, 0)
    own.arena.publish(published)
    foreign = own.arena.allocate(4096, OTHER_QUERY, 0)
    for offset, size in [(reserved, 4097), (published, 64), (foreign, 64), (0, 64)]:
        with pytest.raises(InvalidRequestError, match="reserved"):
            transport.write(own.descriptor, offset, bytes(size))


@pytest.mark.parametrize("shift", [-64, 4096, 4032 + 1], ids=["before", "behind", "across the end"])
def test_an_exposed_range_s_key_is_good_for_that_range_alone(
    own: InProcess, transport: VerbsTransport, shift: int
) -> None:
    own.arena.allocate(64, QUERY, 0)
    reserved = own.arena.allocate(4096, QUERY, 0)
    held = bytes(own.arena.view(0, own.arena.size))
    assert transport.unreachable(own.descriptor) is None
    known = transport._peers.of(own.descriptor, pytest.fail)
    lease = known._hub.landing.acquire(64)
    key = known._client.act("expose", Expose(reserved, 4096))["rkey"]

    def move(connection: Any) -> None:
        piece = Piece(lease.slab.address, connection.address + reserved + shift, 64)
        connection.mover.move("IBV_WR_RDMA_WRITE", [piece], lease.slab.lkey, key, "stray WRITE", deadline())

    with pytest.raises(RemoteAccessError):
        known._with_connection(move, deadline())
    assert bytes(own.arena.view(0, own.arena.size)) == held


def test_a_key_is_of_no_use_after_conceal(own: InProcess, transport: VerbsTransport) -> None:
    reserved = own.arena.allocate(4096, QUERY, 0)
    assert transport.unreachable(own.descriptor) is None
    known = transport._peers.of(own.descriptor, pytest.fail)
    lease = known._hub.landing.acquire(64)
    key = known._client.act("expose", Expose(reserved, 4096))["rkey"]
    assert known._client.act("conceal", Conceal(reserved)) == {"ended": True}
    assert known._client.act("conceal", Conceal(reserved)) == {"ended": False}

    def move(connection: Any) -> None:
        piece = Piece(lease.slab.address, connection.address + reserved, 64)
        connection.mover.move("IBV_WR_RDMA_WRITE", [piece], lease.slab.lkey, key, "late WRITE", deadline())

    with pytest.raises(RemoteAccessError):
        known._with_connection(move, deadline())
