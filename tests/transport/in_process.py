"""An agent inside the test's own process, so that a test can reserve blocks as the agent does."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyslash import _native
from pyslash.agent.compaction.compactor import Compactor
from pyslash.agent.server import AgentServer
from pyslash.agent.store.state import AgentState
from pyslash.agent.verbs import VerbsEndpoint
from pyslash.errors import TransportUnavailableError
from pyslash.protocol import process
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.rdma.port import choose_port


@dataclass(frozen=True)
class InProcess:
    """A served arena and what peers know of it."""

    descriptor: AgentDescriptor
    arena: _native.Arena
    state: AgentState


@contextmanager
def serving(secret: bytes, folder: Path, arena_bytes: int = 16 << 20, host: str = "127.0.0.1") -> Iterator[InProcess]:
    """Serves until the end of the block."""
    incarnation = secrets.token_bytes(16)
    fd = os.memfd_create("pyslash-test-arena", os.MFD_CLOEXEC)
    arena = _native.Arena.create(fd, arena_bytes, incarnation)
    state = AgentState(arena, fd, incarnation)
    log = folder / "agent.log"
    log.touch()
    try:
        port, reason = choose_port(host=host), ""
    except TransportUnavailableError as error:
        port, reason = None, str(error)
    verbs = VerbsEndpoint(arena, port, reason)
    server = AgentServer(secret, state, Compactor(state), verbs, log)
    server.listen_unix(str(folder / "agent.sock"))
    started = process.start_time(os.getpid())
    assert started is not None
    descriptor = AgentDescriptor(
        pid=os.getpid(),
        start_time=started,
        fd=fd,
        arena_bytes=arena_bytes,
        incarnation=incarnation.hex(),
        socket=str(folder / "agent.sock"),
        host=host,
        port=server.listen_tcp(host),
        boot_id=process.boot_id(),
        log=str(log),
        fabric="" if port is None else port.fabric,
    )
    try:
        yield InProcess(descriptor, arena, state)
    finally:
        server.close()
        os.close(fd)
