"""Connections: leased, ended, counted."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import closing

import pytest

from pyslash import _native
from pyslash.agent import verbs
from pyslash.errors import InvalidRequestError, SlashError
from pyslash.protocol.client import AgentClient
from pyslash.protocol.messages import Connect, Disconnect, Renew
from pyslash.protocol.token import query_token
from pyslash.rdma.port import Port
from pyslash.transport.verbs import VerbsTransport
from tests.agent.blocks import QUERY
from tests.rdma.peer import Peer, peer
from tests.rdma.raw_block import HEADER_BYTES, body

pytestmark = pytest.mark.rdma
CYCLES = 25
DEADLINE_SECONDS = 30  # nothing answers any more where an agent was


def own_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_many_connections_leave_nothing(remote: Peer, shared_secret: bytes, control: AgentClient) -> None:
    offset, size = remote.blocks[0]

    def cycle() -> None:
        reader = VerbsTransport(QUERY, query_token(shared_secret, QUERY))
        (buffer,) = reader.read(remote.descriptor, offset, [(HEADER_BYTES, size)])
        assert buffer.to_pybytes() == body(0, size)
        del buffer
        reader.close()

    for _ in range(3):
        cycle()  # whatever is opened once and kept
    before, own_before = settled(control), own_descriptors()
    for _ in range(CYCLES):
        cycle()
    assert settled(control) == before
    assert own_descriptors() <= own_before


def settled(control: AgentClient) -> list[int]:
    """What the agent has open, once it has noticed that the last connection is over: the same for a second."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    found: list[list[int]] = []
    while time.monotonic() < deadline:
        stats = control.stats()
        found.append([stats[name] for name in ("verbs_pairs", "verbs_registrations", "open_fds")])
        if found[-3:] == [found[-1]] * 3:
            return found[-1]
        time.sleep(0.5)
    raise AssertionError(f"the agent's figures change all the time: {found}")


@pytest.fixture
def endpoint(port: Port) -> tuple[verbs.VerbsEndpoint, list[float]]:
    """An agent's endpoint, and its clock."""
    fd = os.memfd_create("arena")
    arena = _native.Arena.create(fd, 4 << 20, secrets.token_bytes(16))
    os.close(fd)
    now = [0.0]
    return verbs.VerbsEndpoint(arena, port, clock=lambda: now[0]), now


def request(port: Port, qpn: int = 77) -> Connect:
    return Connect(qpn, 1, port.gid, port.lid, 3, 1, 1)


def test_a_lease_ends_unless_it_is_renewed(port: Port, endpoint: tuple[verbs.VerbsEndpoint, list[float]]) -> None:
    agent, now = endpoint
    kept = agent.connect(QUERY, request(port), True)["endpoint"]["qpn"]
    lost = agent.connect(QUERY, request(port), True)["endpoint"]["qpn"]
    now[0] = verbs.LEASE_SECONDS * 0.9
    agent.renew(QUERY, Renew(kept))
    now[0] = verbs.LEASE_SECONDS * 1.1
    agent.connect(QUERY, request(port), True)
    assert agent.figures()["verbs_pairs"] == 2
    with pytest.raises(InvalidRequestError, match="its lease may have ended"):
        agent.renew(QUERY, Renew(lost))
    with pytest.raises(InvalidRequestError):
        agent.renew(bytes(16), Renew(kept))
    agent.renew(QUERY, Renew(kept))
    agent.drop(QUERY)
    assert agent.figures() == {"verbs_pairs": 0, "verbs_registrations": 0}


def test_the_last_connection_takes_the_registration_along(
    port: Port, endpoint: tuple[verbs.VerbsEndpoint, list[float]]
) -> None:
    agent, _ = endpoint
    first, second = (agent.connect(QUERY, request(port), True)["endpoint"]["qpn"] for _ in range(2))
    other = agent.connect(bytes(16), request(port), True)["endpoint"]["qpn"]
    assert agent.figures() == {"verbs_pairs": 3, "verbs_registrations": 2}
    assert agent.disconnect(QUERY, Disconnect(first)) == {"ended": True}
    assert agent.disconnect(QUERY, Disconnect(first)) == {"ended": False}
    assert agent.disconnect(QUERY, Disconnect(other)) == {"ended": False}  # another query's
    agent.disconnect(QUERY, Disconnect(second))
    assert agent.figures() == {"verbs_pairs": 1, "verbs_registrations": 1}
    agent.drop(bytes(16))


def test_a_reader_connects_anew_when_its_lease_has_ended(
    remote: Peer, transport: VerbsTransport, control: AgentClient
) -> None:
    offset, size = remote.blocks[0]
    transport.read(remote.descriptor, offset, [(HEADER_BYTES, size)])
    connection = transport._peers.of(remote.descriptor, pytest.fail)._connection
    assert connection is not None
    control.act("disconnect", Disconnect(connection.peer.qpn))  # as the agent does after the lease
    connection.renew_at = 0.0
    (buffer,) = transport.read(remote.descriptor, offset, [(HEADER_BYTES, size)])
    assert buffer.to_pybytes() == body(0, size)
    assert transport._peers.of(remote.descriptor, pytest.fail)._connection is not connection


def test_a_restarted_agent_is_another(port: Port, shared_secret: bytes) -> None:
    transport = VerbsTransport(QUERY, query_token(shared_secret, QUERY), DEADLINE_SECONDS)
    with closing(transport), peer(shared_secret, 8 << 20, [4096]) as first:
        offset, size = first.blocks[0]
        transport.read(first.descriptor, offset, [(HEADER_BYTES, size)])
        first.kill()
        with peer(shared_secret, 8 << 20, [4096]) as second:
            with pytest.raises(SlashError):
                transport.read(first.descriptor, offset, [(HEADER_BYTES, size)])
            (buffer,) = transport.read(second.descriptor, second.blocks[0][0], [(HEADER_BYTES, size)])
            assert buffer.to_pybytes() == body(0, size)
