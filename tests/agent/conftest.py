"""An agent for each test: real processes, tied to a sleeping one that stands for the executor's JVM."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyslash.agent.process.launch import AgentRequest, ensure
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.token import query_token
from tests.agent.blocks import QUERY

MIB = 1 << 20
Pair = tuple[AgentDescriptor, AgentClient]


def wait_until_gone(pid: int, seconds: float = 120) -> bool:
    """Whether a process that is no child of ours ends within the time."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(handle)


@pytest.fixture
def runtime_root() -> Iterator[Path]:
    """A short path: a Unix socket's has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="ps-") as root:
        yield Path(root) / "r"


@pytest.fixture
def jvm() -> Iterator[subprocess.Popen[bytes]]:
    """A process for an agent to live and die with."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def secret() -> bytes:
    """The application's."""
    return secrets.token_bytes(32)


@pytest.fixture
def request_agent(secret: bytes, jvm: subprocess.Popen[bytes], runtime_root: Path) -> Callable[..., AgentRequest]:
    """Makes requests for the test's JVM; arguments override."""

    def make(**overrides: object) -> AgentRequest:
        fields = {
            "secret": secret,
            "arena_bytes": 64 * MIB,
            "jvm_pid": jvm.pid,
            "host": "127.0.0.1",
            "runtime_dir": str(runtime_root),
            "deadline_seconds": 20,
        }
        return AgentRequest(**{**fields, **overrides})

    return make


@pytest.fixture
def agent(request_agent: Callable[..., AgentRequest], jvm: subprocess.Popen[bytes]) -> Iterator[AgentDescriptor]:
    """A running agent; it ends with the test."""
    descriptor = ensure(request_agent())
    yield descriptor
    jvm.kill()
    jvm.wait()
    assert wait_until_gone(descriptor.pid)


@pytest.fixture
def client(agent: AgentDescriptor, secret: bytes) -> Iterator[AgentClient]:
    """The agent as the driver sees it, for the one query of most tests."""
    with AgentClient(agent, QUERY, query_token(secret, QUERY), timeout_seconds=20, secret=secret) as client:
        yield client


@pytest.fixture
def start(request_agent: Callable[..., AgentRequest], secret: bytes) -> Iterator[Callable[..., Pair]]:
    """Starts further agents, each with a JVM of its own."""
    with contextlib.ExitStack() as stack:

        def make(**overrides: object) -> Pair:
            jvm = subprocess.Popen(["sleep", "600"])
            stack.callback(jvm.wait)
            stack.callback(jvm.kill)
            made = ensure(request_agent(jvm_pid=jvm.pid, **overrides))
            client = AgentClient(made, QUERY, query_token(secret, QUERY), timeout_seconds=20, secret=secret)
            return made, stack.enter_context(client)

        yield make


@pytest.fixture
def standby(start: Callable[..., Pair]) -> Pair:
    """The agent that keeps the replicas of `agent`."""
    return start()
