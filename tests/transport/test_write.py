"""Writing a replica into a block that a peer's agent has reserved, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslash.agent.client import AgentClient
from pyslash.agent.descriptor import AgentDescriptor
from pyslash.agent.token import query_token
from pyslash.errors import InvalidRequestError, StaleIncarnationError
from pyslash.transport import Transports
from tests.agent.blocks import OTHER_QUERY, QUERY
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


def test_a_stream_of_another_length_is_refused(standby: InProcess, secret: bytes) -> None:
    import pyarrow as pa
    import pyarrow.flight as flight

    from pyslash.agent.form import body
    from pyslash.agent.messages import SCHEMA, messages
    from pyslash.agent.request import Write
    from pyslash.agent.token import headers

    offset = standby.arena.allocate(4096, QUERY, 0)
    options = flight.FlightCallOptions(
        timeout=10, headers=headers(QUERY, query_token(secret, QUERY), standby.descriptor.incarnation)
    )

    def put(raw: flight.FlightClient, announced: int, sent: int) -> None:
        command = body(Write(offset, announced, standby.descriptor.incarnation))
        stream, answer = raw.do_put(flight.FlightDescriptor.for_command(command), SCHEMA, options)
        with stream:
            for message, _ in messages(pa.py_buffer(bytes(sent))):
                stream.write_batch(message)
            stream.done_writing()
            answer.read()

    with flight.connect(standby.descriptor.tcp_location) as raw:
        for announced, sent in [(100, 99), (99, 100)]:
            with pytest.raises(flight.FlightServerError, match="bytes got"):
                put(raw, announced, sent)


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
