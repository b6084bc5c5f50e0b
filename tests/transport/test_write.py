"""Writing a replica into a block that a peer's agent has reserved, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyslash.agent.store import replica_calls
from pyslash.errors import ArenaFullError, InvalidRequestError, StaleIncarnationError
from pyslash.protocol.client import AgentClient
from pyslash.protocol.codec import body
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Reserve, Write
from pyslash.protocol.token import query_token
from pyslash.protocol.wire import CHUNK_BYTES, Kind
from pyslash.transport import Transports, reserved
from pyslash.transport import shm as shm_module
from tests.agent.blocks import OTHER_QUERY, PLAN, QUERY
from tests.agent.raw import opened, soon
from tests.transport.in_process import InProcess, serving

MODES = ["shm", "tcp"]


@pytest.fixture
def standby(secret: bytes, tmp_path: Path) -> Iterator[InProcess]:
    """The agent that takes replicas."""
    with serving(secret, tmp_path) as made:
        yield made


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 64, 4096, 9 << 20])
def test_bytes_arrive_where_they_were_reserved_for(
    standby: InProcess, transports: Transports, mode: str, size: int
) -> None:
    data = os.urandom(size)
    before = standby.arena.allocate(64, QUERY, 0)
    offset = standby.arena.allocate(size, QUERY, 0)
    after = standby.arena.allocate(64, QUERY, 0)
    around = [bytes(standby.arena.view(neighbour, 64)) for neighbour in (before, after)]
    transports.choose(standby.descriptor, mode).transport.write(standby.descriptor, offset, data)
    assert bytes(standby.arena.view(offset, size)) == data
    assert [bytes(standby.arena.view(neighbour, 64)) for neighbour in (before, after)] == around
    counters = transports.counters()[mode]
    assert (counters.writes, counters.bytes_written, counters.reads) == (1, size, 0)


@pytest.mark.parametrize("mode", MODES)
def test_nothing_else_can_be_written(standby: InProcess, transports: Transports, mode: str) -> None:
    transport = transports.choose(standby.descriptor, mode).transport
    reserved = standby.arena.allocate(4096, QUERY, 0)
    published = standby.arena.allocate(4096, QUERY, 0)
    standby.arena.publish(published)
    foreign = standby.arena.allocate(4096, OTHER_QUERY, 0)
    held = bytes(standby.arena.view(0, standby.descriptor.arena_bytes))
    for offset, size in [
        (reserved, 4097),
        (reserved + 4000, 97),
        (published, 64),
        (foreign, 64),
        (0, 64),
        (standby.descriptor.arena_bytes - 64, 64),
        (1 << 40, 64),
    ]:
        with pytest.raises(InvalidRequestError, match="reserved"):
            transport.write(standby.descriptor, offset, b"\xff" * size)
    assert bytes(standby.arena.view(0, standby.descriptor.arena_bytes)) == held
    transport.write(standby.descriptor, reserved + 4000, b"\xff" * 96)


@pytest.mark.parametrize(("announced", "sent"), [(100, 99), (99, 100), (64, 3 << 20)])
def test_a_stream_of_another_length_is_refused(standby: InProcess, secret: bytes, announced: int, sent: int) -> None:
    offset = standby.arena.allocate(4096, QUERY, 0)
    ticket = body(Write(offset, announced, standby.descriptor.incarnation))
    with opened(standby.descriptor, query_token(secret, QUERY)) as channel:
        channel.send(Kind.CALL, b"write \n" + ticket, soon())
        assert channel.receive(soon()) == (Kind.RESULT, b"{}")
        for at in range(0, sent, CHUNK_BYTES):
            channel.send(Kind.DATA, bytes(min(CHUNK_BYTES, sent - at)), soon())
        channel.send(Kind.DONE, b"", soon())
        kind, answer = channel.receive(soon())
    assert kind is Kind.ERROR
    assert b"bytes got" in answer


@pytest.mark.parametrize("mode", MODES)
def test_room_that_is_written_to_goes_to_nobody_else(
    standby: InProcess, transports: Transports, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """A replica that is given up while a peer writes it: its bytes must not land in the next owner's block."""
    calls, source = replica_calls.ReplicaCalls(standby.state), "ab" * 16
    places = calls.reserve(QUERY, Reserve(0, source, [[0, 8 << 20, 0]], PLAN, 0, False))["offsets"]
    write_all = reserved.write_all
    others: list[int] = []

    def abandoned_first(fd: int, data: Any, at: int) -> int:
        if not others:
            # The next attempt of the epoch: what was reserved before is void, and its room is wanted by others.
            with pytest.raises(ArenaFullError):
                calls.reserve(QUERY, Reserve(0, source, [[0, 12 << 20, 0]], PLAN, 0, False))
            others.append(standby.arena.allocate(1 << 20, OTHER_QUERY, 0))
        return write_all(fd, data, at)

    for module in (replica_calls, shm_module):
        monkeypatch.setattr(module, "write_all", abandoned_first)
    transport = transports.choose(standby.descriptor, mode).transport
    transport.write(standby.descriptor, places[0], b"\xff" * (8 << 20))
    assert bytes(standby.arena.view(others[0], 1 << 20)) == bytes(1 << 20)
    assert others[0] >= places[0] + (8 << 20)
    assert [block[0] for block in standby.arena.blocks()] == others  # and with the write's end the room is free


@pytest.mark.parametrize("mode", MODES)
def test_an_earlier_incarnation_takes_nothing(standby: InProcess, transports: Transports, mode: str) -> None:
    offset = standby.arena.allocate(64, QUERY, 0)
    transport = transports.choose(standby.descriptor, mode).transport
    earlier = AgentDescriptor(**{**standby.descriptor.to_record(), "incarnation": "ab" * 16})
    with pytest.raises(StaleIncarnationError):
        transport.write(earlier, offset, bytes(64))


def test_an_agent_without_reservations_refuses(agent: AgentDescriptor, client: AgentClient) -> None:
    with pytest.raises(InvalidRequestError, match="nothing is reserved"):
        client.write(1 << 20, b"x")
