"""READs of blocks of all sizes, and whatever a peer's device has to refuse."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from pyslash.errors import (
    InvalidRequestError,
    RemoteAccessError,
    StaleIncarnationError,
    TransportUnavailableError,
    UnauthenticatedError,
)
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.token import query_token
from pyslash.rdma.transfer import Operation, Piece
from pyslash.transport import Placed, Transports, verbs
from pyslash.transport.verbs import VerbsTransport
from tests.agent.blocks import OTHER_QUERY, QUERY
from tests.rdma.conftest import PATIENCE_SECONDS, SIZES, deadline
from tests.rdma.peer import Peer
from tests.rdma.raw_block import HEADER_BYTES, body
from tests.transport.memory import Target

pytestmark = pytest.mark.rdma


@pytest.mark.parametrize("index", range(len(SIZES)), ids=[str(size) for size in SIZES])
def test_a_block_comes_whole(remote: Peer, transport: VerbsTransport, index: int) -> None:
    offset, size = remote.blocks[index]
    (buffer,) = transport.read(remote.descriptor, offset, [(HEADER_BYTES, size)])
    assert buffer.to_pybytes() == body(index, size)
    assert (transport.counters.reads, transport.counters.bytes) == (1, size)


def test_ranges_come_in_order_and_aligned(remote: Peer, transport: VerbsTransport) -> None:
    index = SIZES.index((1 << 20) + 64)
    offset, size = remote.blocks[index]
    whole = body(index, size)
    rng = random.Random(1)
    cuts = sorted(rng.sample(range(size), 200))
    ranges = [(HEADER_BYTES + cut, min(rng.randrange(1, 5000), size - cut)) for cut in cuts]
    buffers = transport.read(remote.descriptor, offset, ranges)
    assert [buffer.to_pybytes() for buffer in buffers] == [
        whole[begin - HEADER_BYTES :][:length] for begin, length in ranges
    ]
    assert all(buffer.address % 64 == 0 for buffer in buffers)
    assert transport.read(remote.descriptor, offset, []) == []


def test_ranges_of_many_blocks_come_in_lists_with_one_doorbell_each(
    remote: Peer, transport: VerbsTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More ranges than a queue holds, and more bytes than one list takes; all bytes at their places."""
    assert transport.unreachable(remote.descriptor) is None
    known = transport._peers.of(remote.descriptor, pytest.fail)
    assert known._connection is not None
    mover = known._connection.mover
    calls: list[object] = []
    post = mover._post_send
    monkeypatch.setattr(mover, "_post_send", lambda request: (calls.append(request), post(request)))
    small = [SIZES.index(size) for size in (4096, 64 << 10, 1 << 20)]
    places = [0, 1 << 18, 1 << 19]
    target = Target(2 << 20)
    blocks = []
    for index, place in zip(small, places, strict=True):
        offset, size = remote.blocks[index]
        ranges = [(HEADER_BYTES + at, min(64, size - at)) for at in range(0, min(size, 4096 * 90), 4096)]
        blocks.append(Placed(offset, ranges, place, target))
    transport.bring(remote.descriptor, blocks)
    count = sum(len(block.ranges) for block in blocks) + len(blocks)
    assert len(calls) == -(-count // mover._list)
    for index, block in zip(small, blocks, strict=True):
        whole = bytes(HEADER_BYTES) + body(index, remote.blocks[index][1])
        for offset, length in block.ranges:
            assert target.bytes[block.place + offset :][:length] == whole[offset:][:length]
    index = SIZES.index(8 * (1 << 20) + 1)
    offset, size = remote.blocks[index]
    monkeypatch.setattr(verbs, "_LIST_BYTES", 3 << 20)
    large = Target(HEADER_BYTES + size)
    halves = [(HEADER_BYTES, size // 2), (HEADER_BYTES + size // 2, size - size // 2)]
    reads = transport.counters.reads
    transport.bring(remote.descriptor, [Placed(offset, halves, 0, large)])
    assert transport.counters.reads - reads == 2
    assert large.bytes[HEADER_BYTES:] == body(index, size)
    with pytest.raises(StaleIncarnationError, match=f"no block of this query at {remote.blocks[0][0] + 64} any more"):
        transport.bring(remote.descriptor, [blocks[0], Placed(remote.blocks[0][0] + 64, [(0, 64)], 0, target)])


def test_bytes_stay_as_they_are_while_they_are_held(remote: Peer, transport: VerbsTransport) -> None:
    held = [
        (index, transport.read(remote.descriptor, offset, [(HEADER_BYTES, size)])[0])
        for _ in range(3)
        for index, (offset, size) in enumerate(remote.blocks[:4])
    ]
    transport.close()
    for index, buffer in held:
        assert buffer.to_pybytes() == body(index, SIZES[index])


def test_many_queue_pairs_at_once(remote: Peer, shared_secret: bytes) -> None:
    readers = [VerbsTransport(QUERY, query_token(shared_secret, QUERY), PATIENCE_SECONDS) for _ in range(16)]
    wrong: list[object] = []

    def read(reader: VerbsTransport, first: int) -> None:
        try:
            for index in range(first, first + 3):
                offset, size = remote.blocks[index % 5]
                (buffer,) = reader.read(remote.descriptor, offset, [(HEADER_BYTES, size)])
                if buffer.to_pybytes() != body(index % 5, size):
                    wrong.append(index)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=read, args=(reader, first)) for first, reader in enumerate(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for reader in readers:
        reader.close()
    assert wrong == []


def test_one_connection_serves_many_threads(remote: Peer, transport: VerbsTransport) -> None:
    offset, size = remote.blocks[2]
    found: list[bytes] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(
                transport.read(remote.descriptor, offset, [(HEADER_BYTES, size)])[0].to_pybytes()
            )
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [body(2, size)] * 8


@pytest.mark.parametrize(
    ("operation", "wrong_key", "shift", "length"),
    [
        ("IBV_WR_RDMA_READ", 0x5500, 0, 4096),
        ("IBV_WR_RDMA_READ", 0, -4096, 4096),
        ("IBV_WR_RDMA_READ", 0, 96 << 20, 4096),
        ("IBV_WR_RDMA_READ", 0, (96 << 20) - 64, 128),
        ("IBV_WR_RDMA_WRITE", 0, 1 << 20, 64),
    ],
    ids=["wrong key", "before the arena", "behind the arena", "across its end", "write"],
)
def test_what_is_not_allowed_is_refused_and_the_agent_lives(
    remote: Peer,
    transport: VerbsTransport,
    operation: Operation,
    wrong_key: int,
    shift: int,
    length: int,
) -> None:
    offset, size = remote.blocks[0]
    transport.read(remote.descriptor, offset, [(HEADER_BYTES, size)])
    known = transport._peers.of(remote.descriptor, pytest.fail)
    lease = known._hub.landing.acquire(length)

    def move(connection: Any) -> None:
        piece = Piece(lease.slab.address, connection.address + shift, length)
        connection.mover.move(
            operation, [piece], lease.slab.lkey, connection.rkey ^ wrong_key, "the test's access", deadline()
        )

    with pytest.raises(RemoteAccessError, match="the test's access: message 0 failed"):
        known._with_connection(move, deadline())
    (again,) = transport.read(remote.descriptor, offset, [(HEADER_BYTES, size)])  # over a connection made anew
    assert again.to_pybytes() == body(0, size)


def test_a_forged_token_does_not_connect(remote: Peer, shared_secret: bytes, control: AgentClient) -> None:
    before = control.stats()["verbs_pairs"]
    forged = VerbsTransport(QUERY, query_token(shared_secret, OTHER_QUERY))
    with pytest.raises(UnauthenticatedError):
        forged.read(remote.descriptor, remote.blocks[0][0], [(HEADER_BYTES, 64)])
    with pytest.raises(UnauthenticatedError):
        forged.unreachable(remote.descriptor)
    forged.close()
    assert control.stats()["verbs_pairs"] == before


def test_a_key_of_another_query_s_domain_is_refused(
    remote: Peer, transport: VerbsTransport, shared_secret: bytes
) -> None:
    offset, size = remote.blocks[0]
    transport.read(remote.descriptor, offset, [(HEADER_BYTES, size)])
    key = transport._peers.of(remote.descriptor, pytest.fail)._connection.rkey
    other = VerbsTransport(OTHER_QUERY, query_token(shared_secret, OTHER_QUERY))
    assert other.unreachable(remote.descriptor) is None
    known = other._peers.of(remote.descriptor, pytest.fail)
    lease = known._hub.landing.acquire(64)

    def move(connection: Any) -> None:
        piece = Piece(lease.slab.address, connection.address + offset, 64)
        connection.mover.move("IBV_WR_RDMA_READ", [piece], lease.slab.lkey, key, "foreign key", deadline())

    with pytest.raises(RemoteAccessError):
        known._with_connection(move, deadline())
    other.close()


def test_a_place_without_a_block_of_the_query_is_stale(remote: Peer, transport: VerbsTransport) -> None:
    offset, _ = remote.blocks[3]
    for wrong in (0, offset + 64, offset - 4096):
        with pytest.raises(StaleIncarnationError, match="no block of this query"):
            transport.read(remote.descriptor, wrong, [(HEADER_BYTES, 64)])


def test_ranges_beyond_the_block_or_the_arena_are_refused(remote: Peer, transport: VerbsTransport) -> None:
    offset, size = remote.blocks[0]
    with pytest.raises(InvalidRequestError, match="leaves the block"):
        transport.read(remote.descriptor, offset, [(HEADER_BYTES, size + 1)])
    with pytest.raises(InvalidRequestError, match="leaves the arena"):
        transport.read(remote.descriptor, offset, [(0, remote.descriptor.arena_bytes)])


def test_another_incarnation_is_stale(remote: Peer, transport: VerbsTransport) -> None:
    earlier = AgentDescriptor(**{**remote.descriptor.to_record(), "incarnation": "ab" * 16})
    with pytest.raises(StaleIncarnationError):
        transport.read(earlier, remote.blocks[0][0], [(HEADER_BYTES, 64)])


def test_auto_takes_verbs_on_one_fabric_and_tcp_elsewhere(remote: Peer, shared_secret: bytes) -> None:
    transports = Transports(QUERY, query_token(shared_secret, QUERY))
    chosen = transports.choose(remote.descriptor)
    assert chosen.transport.name == "verbs"
    assert "both are on the fabric roce" in chosen.reason
    elsewhere = AgentDescriptor(**{**remote.descriptor.to_record(), "fabric": "roce 192.0.2.0/24"})
    chosen = transports.choose(elsewhere)
    assert chosen.transport.name == "tcp"
    assert "no port of this host is on the peer's fabric" in chosen.reason
    assert transports.choose(elsewhere, "verbs").transport.name == "verbs"  # routed, for all that we know
    without = AgentDescriptor(**{**remote.descriptor.to_record(), "fabric": ""})
    with pytest.raises(TransportUnavailableError, match="has no RDMA device"):
        transports.choose(without, "verbs")
    transports.close()
