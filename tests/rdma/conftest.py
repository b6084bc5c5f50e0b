"""A device, or a skip that says why there is none; an agent to read from, on the lab's other host if it has one."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyslash.errors import TransportUnavailableError
from pyslash.protocol.client import AgentClient
from pyslash.protocol.token import query_token
from pyslash.rdma.library import library
from pyslash.rdma.port import Port, choose_port
from pyslash.transport.verbs import VerbsTransport
from tests.agent.blocks import QUERY
from tests.rdma.peer import HOSTS, SELF, Peer, peer
from tests.transport.in_process import InProcess, serving

MIB = 1 << 20
PATIENCE_SECONDS = 600  # emulated hosts of a busy machine are slow
SIZES = [64, 65, 4096, 64 << 10, MIB, MIB + 64, 8 * MIB + 1, 64 * MIB]


def deadline() -> float:
    """For what is asked of a host now."""
    return time.monotonic() + PATIENCE_SECONDS


@pytest.fixture(scope="session")
def port(record_testsuite_property: Callable[[str, object], None]) -> Port:
    """The port under test."""
    try:
        library()
        found = choose_port(host=SELF)
    except TransportUnavailableError as error:
        pytest.skip(f"{error}; `make lab` runs this in a QEMU host that has a device")
    record_testsuite_property("rdma_device", str(found))
    record_testsuite_property("rdma_hosts", HOSTS)
    record_testsuite_property("kernel", os.uname().release)
    return found


@pytest.fixture(scope="session")
def shared_secret() -> bytes:
    """Of the application that all agents of the session belong to."""
    return secrets.token_bytes(32)


@pytest.fixture(scope="session")
def remote(port: Port, shared_secret: bytes) -> Iterator[Peer]:
    """An agent whose blocks have the sizes `SIZES`; tests leave it as they find it."""
    with peer(shared_secret, 96 * MIB, SIZES) as made:
        yield made


@pytest.fixture
def own(port: Port, shared_secret: bytes, tmp_path: Path) -> Iterator[InProcess]:
    """An agent in this process, for what needs a look at the agent's side."""
    with serving(shared_secret, tmp_path, 16 * MIB, SELF) as made:
        yield made


@pytest.fixture
def transport(shared_secret: bytes) -> Iterator[VerbsTransport]:
    """Of one reader."""
    made = VerbsTransport(QUERY, query_token(shared_secret, QUERY), PATIENCE_SECONDS)
    yield made
    made.close()


@pytest.fixture
def control(remote: Peer, shared_secret: bytes) -> Iterator[AgentClient]:
    """The remote agent's control plane."""
    with AgentClient(remote.descriptor, QUERY, query_token(shared_secret, QUERY), via="tcp") as made:
        yield made
