"""The agent's main function: from the order on standard input to the removal of its last trace."""

from __future__ import annotations

import enum
import fcntl
import gc
import json
import logging
import os
import secrets
import select
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pyslash.agent.process.presence import Presence
from pyslash.agent.process.runtime import RuntimeDirectory, sweep
from pyslash.errors import TransportUnavailableError
from pyslash.protocol import process
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.rdma.port import Port, choose_port

_log = logging.getLogger("pyslash.agent")
_KEEP_SECONDS = 1.0


class End(enum.Enum):
    """Why an agent ends. After a request, its log stays as long as the JVM lives; otherwise nothing stays."""

    JVM_GONE = "its JVM is gone"
    ASKED = "it was asked to"


@dataclass(frozen=True)
class _Order:
    secret: bytes
    arena_bytes: int
    jvm_pid: int
    jvm_start: int
    host: str
    tcp: bool
    runtime: RuntimeDirectory


def serve(ready_fd: int) -> NoReturn:
    """Runs until the JVM or a signal ends it. `ready_fd` is closed once the descriptor is in place.

    The order comes on standard input, so that the secret is in no argument list and no environment.
    """
    if os.fork():
        # Whoever asked (a Python worker, say) is not to become the parent of a process that outlives the request.
        os._exit(0)
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s pid %(process)d %(name)s: %(message)s"
    )
    order = _read_order()
    watch = _Watch(order.jvm_pid, order.jvm_start)
    # Held for as long as this process lives: whatever the pids of another namespace say, nobody takes its place.
    presence = Presence(order.runtime)
    _open(order, presence)
    os.close(ready_fd)
    gc.freeze()  # what has been imported stays: a collection does not have to visit it each time
    while (end := watch.wait(_KEEP_SECONDS)) is None:
        presence.keep()
    _log.info("ends: %s", end.value)
    _close(order, end)


def _read_order() -> _Order:
    record = json.loads(sys.stdin.buffer.read())
    runtime = RuntimeDirectory(Path(record.pop("directory")), record.pop("name"))
    return _Order(secret=bytes.fromhex(record.pop("secret")), runtime=runtime, **record)


class _Watch:
    """Waits for the JVM's end or SIGTERM/SIGINT, whichever is first."""

    def __init__(self, jvm_pid: int, jvm_start: int) -> None:
        self._jvm = os.pidfd_open(jvm_pid)
        if not process.is_alive(jvm_pid, jvm_start):
            raise ProcessLookupError(f"JVM {jvm_pid} is gone")
        self._asked, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)

    def wait(self, seconds: float) -> End | None:
        """None: neither within the time."""
        poll = select.poll()
        poll.register(self._jvm, select.POLLIN)
        poll.register(self._asked, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(seconds * 1000)}
        if not ready:
            return None
        return End.JVM_GONE if self._jvm in ready else End.ASKED


def _open(order: _Order, presence: Presence) -> None:
    # Late imports: they cost a quarter of a second, and the checks above come first.
    from pyslash._native import Arena
    from pyslash.agent.compaction.compactor import Compactor
    from pyslash.agent.listener import raise_descriptor_limit
    from pyslash.agent.server import AgentServer
    from pyslash.agent.store.state import AgentState
    from pyslash.agent.verbs import VerbsEndpoint
    from pyslash.protocol.messages import Conceal

    runtime = order.runtime
    sweep(runtime.path.parent)
    raise_descriptor_limit()
    runtime.remove_agent_files()
    incarnation = secrets.token_bytes(16)
    fd = os.memfd_create("pyslash-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    arena = Arena.create(fd, order.arena_bytes, incarnation)
    # Whatever is written beyond its end must not make it grow, and nobody may take mapped pages away.
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    port, reason = _find_port(order.host)
    verbs = VerbsEndpoint(arena, port, reason)
    state = AgentState(arena, fd, incarnation, lambda query, offset: verbs.conceal(query, Conceal(offset)))
    compactor = Compactor(state, verbs.end_expired)
    server = AgentServer(order.secret, state, compactor, verbs, runtime.log)
    tcp_port = server.listen_tcp(order.host) if order.tcp else 0
    compactor.start()
    pid = os.getpid()
    started = process.start_time(pid)
    assert started is not None
    descriptor = AgentDescriptor(
        pid=pid,
        start_time=started,
        fd=fd,
        arena_bytes=order.arena_bytes,
        incarnation=incarnation.hex(),
        socket=str(runtime.socket),
        host=order.host,
        port=tcp_port,
        boot_id=process.boot_id(),
        log=str(runtime.log),
        fabric="" if port is None else port.fabric,
    )
    presence.announce(server.listen_unix, descriptor.to_json())
    _log.info("%s serves JVM %d with an arena of %d bytes", descriptor, order.jvm_pid, order.arena_bytes)


def _find_port(host: str) -> tuple[Port | None, str]:
    try:
        return choose_port(host=host), ""
    except TransportUnavailableError as error:
        _log.info("no RDMA here: %s", error)
        return None, str(error)


def _close(order: _Order, end: End) -> NoReturn:
    if end is End.JVM_GONE:
        order.runtime.remove()
    else:
        order.runtime.remove_agent_files()
    logging.shutdown()
    # Calls in progress have no one left to answer to.
    os._exit(0)
