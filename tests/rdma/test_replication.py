"""Replicas by RDMA WRITE in an agent on the lab's other host, which serves them when their source has been killed."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pyslash import _native
from pyslash.agent.process.launch import AgentRequest, ensure
from pyslash.agent.store.adopt import relocated
from pyslash.errors import InvalidRequestError, SlashError
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Promote, Replicate, Reserve, Resume, Seal
from pyslash.protocol.token import query_token
from pyslash.rdma.port import Port
from pyslash.state.files.block_head import head_crc
from pyslash.transport.verbs import VerbsTransport
from pyslash.units import BEFORE_ALL_PANES
from tests.agent.blocks import PLAN, QUERY, attach, merged, merged_from, write
from tests.agent.conftest import jvm, request_agent, runtime_root, wait_until_gone
from tests.rdma.conftest import MIB
from tests.rdma.peer import SELF, Peer, peer

__all__ = ["jvm", "request_agent", "runtime_root"]
pytestmark = pytest.mark.rdma
SECONDS = 60
# An agent gives its calls to a standby 30 s each (agent.replicate); emulated hosts are slow on top of it.
GRACE_SECONDS = 30


@pytest.fixture
def secret(shared_secret: bytes) -> bytes:
    """The session's: source and standby are of one application."""
    return shared_secret


@pytest.fixture
def standby(port: Port, shared_secret: bytes) -> Iterator[Peer]:
    """An agent without a block."""
    with peer(shared_secret, 48 * MIB, []) as made:
        yield made


@pytest.fixture
def source(
    port: Port, request_agent: Callable[..., AgentRequest], jvm: subprocess.Popen[bytes]
) -> Iterator[AgentDescriptor]:
    """An agent of this host, in a process of its own."""
    made = ensure(request_agent(host=SELF, arena_bytes=48 * MIB, deadline_seconds=240))
    yield made
    jvm.kill()
    jvm.wait()
    assert wait_until_gone(made.pid, SECONDS)


@pytest.fixture
def connect(shared_secret: bytes) -> Iterator[Callable[..., AgentClient]]:
    """Makes the driver's clients."""
    made: list[AgentClient] = []

    def to(agent: AgentDescriptor) -> AgentClient:
        via = "tcp" if agent.host != SELF else "auto"
        made.append(AgentClient(agent, QUERY, query_token(shared_secret, QUERY), via=via, timeout_seconds=SECONDS))
        return made[-1]

    yield to
    for client in made:
        client.close()


def raw_head(agent: AgentDescriptor, head: _native.Head) -> bytes:
    return bytes(attach(agent).view(head.arena_offset, head.head_length))


def test_a_written_block_is_read_back(
    source: AgentDescriptor, standby: Peer, transport: VerbsTransport, connect: Callable[..., AgentClient]
) -> None:
    written = write(source, 0, [0, 10], keys=range(40_000))
    block = bytes(attach(source).view(written.arena_offset, written.length))
    control = connect(standby.descriptor)
    room = [[written.arena_offset, written.length, head_crc(block)]]
    (place,) = control.act("reserve", Reserve(0, source.incarnation, room, PLAN, 1, True))["offsets"]
    replica = relocated(block[: written.head_length], QUERY, standby.descriptor.incarnation_bytes, place)
    replica += block[written.head_length :]
    transport.write(standby.descriptor, place, replica)
    control.act("seal", Seal(0, source.incarnation, PLAN, 1))
    (back,) = transport.read(standby.descriptor, place, [(0, written.length)])
    assert back.to_pybytes() == replica
    assert (transport.counters.bytes_written, transport.counters.bytes) == (written.length, written.length)
    assert control.stats()["verbs_registrations"] == 1  # the arena's: the range's is no more
    with pytest.raises(InvalidRequestError, match="not reserved"):
        transport.write(standby.descriptor, place, replica)  # sealed blocks do not change


def test_a_standby_serves_what_a_killed_source_held(
    source: AgentDescriptor, standby: Peer, transport: VerbsTransport, connect: Callable[..., AgentClient]
) -> None:
    blocks = [write(source, 0, [0, 10], keys=range(40_000)), write(source, 0, [10], keys=range(100))]
    heads = [raw_head(source, block) for block in blocks]
    expected = merged(source, heads, [0, 10])
    offsets = [block.arena_offset for block in blocks]
    places = [[offset, head_crc(head)] for offset, head in zip(offsets, heads, strict=True)]
    of_source, of_standby = connect(source), connect(standby.descriptor)
    to = standby.descriptor.to_json()
    moved = of_source.replicate(Replicate(0, offsets, PLAN, 1, to, "verbs", True), 2 * SECONDS)
    assert moved == sum(block.length for block in blocks)
    of_standby.commit(0, [], PLAN, 1, replicas=[[source.incarnation, places]])
    of_source.commit(0, offsets, PLAN, 1)
    os.kill(source.pid, signal.SIGKILL)
    assert wait_until_gone(source.pid, SECONDS)

    of_standby.resume(Resume(0, PLAN, 2, BEFORE_ALL_PANES))
    of_standby.promote(Promote(0, source.incarnation, places, PLAN, 2))
    promoted = of_standby.live(2).blocks

    def read(head: _native.Head, offset: int, length: int) -> object:
        return transport.read(standby.descriptor, head.arena_offset, [(offset, length)])[0]

    assert merged_from(read, promoted, [0, 10]) == expected
    assert transport.counters.bytes > 0


def test_a_standby_killed_in_the_middle_is_a_typed_error_in_time(
    source: AgentDescriptor, standby: Peer, connect: Callable[..., AgentClient]
) -> None:
    block = write(source, 0, [0, 10], keys=range(300_000))
    of_source, of_standby = connect(source), connect(standby.descriptor)
    request = Replicate(0, [block.arena_offset], PLAN, 1, standby.descriptor.to_json(), "verbs", True)
    failures: list[BaseException] = []

    def replicate() -> None:
        try:
            of_source.replicate(request, 4 * SECONDS)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=replicate, daemon=True)
    thread.start()
    deadline = time.monotonic() + SECONDS
    while of_standby.stats()["verbs_registrations"] < 2:  # the arena, and the range that is being written
        assert time.monotonic() < deadline
    killed = time.monotonic()
    standby.kill()
    thread.join(4 * SECONDS)
    assert time.monotonic() - killed < 30 + GRACE_SECONDS
    (failure,) = failures
    assert isinstance(failure, SlashError)
    # The source goes on: the epoch can be committed without a replica.
    assert of_source.commit(0, [block.arena_offset], PLAN, 1).blocks == [raw_head(source, block)]
