"""Which agents of a query answer, and which ones are gone or only silent."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pyslash.agent.process.launch import AgentRequest, ensure
from pyslash.cluster import agent_group
from pyslash.cluster.agent_group import AgentGroup
from pyslash.errors import AgentUnavailableError, StateLostError
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor

SECRET, QUERY = secrets.token_bytes(32), secrets.token_bytes(16)


@pytest.fixture
def start() -> Iterator[Callable[[], AgentDescriptor]]:
    """Starts agents, each of a process that stands for its JVM."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ps-"))

        def make() -> AgentDescriptor:
            jvm = subprocess.Popen(["sleep", "600"])
            stack.callback(jvm.wait)
            stack.callback(jvm.kill)
            return ensure(AgentRequest(SECRET, 64 << 20, jvm.pid, "127.0.0.1", str(Path(folder, "r"))))

        yield make


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentGroup]:
    """The agents of a query that gives an agent up after a second."""
    monkeypatch.setattr(agent_group, "_PROBE_SECONDS", 1.0)
    made = AgentGroup(QUERY, SECRET, 20)
    yield made
    made.close()


def test_who_answers_is_asked_and_who_is_gone_is_no_reason_to_wait(
    start: Callable[[], AgentDescriptor], group: AgentGroup
) -> None:
    lives, gone = start(), start()
    os.kill(gone.pid, signal.SIGKILL)
    assert group.probe([gone, lives]) == ([lives], False)
    assert group.agents == []


def test_who_lives_and_says_nothing_is_told_apart_from_who_is_gone(
    start: Callable[[], AgentDescriptor], group: AgentGroup
) -> None:
    stopped = start()
    os.kill(stopped.pid, signal.SIGSTOP)
    try:
        assert group.probe([stopped]) == ([], True)
    finally:
        os.kill(stopped.pid, signal.SIGCONT)


class _Silent:
    """What calls an agent, where nobody is called."""

    def __init__(self, descriptor: AgentDescriptor, *_: object, **__: object) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        """Nothing to do."""


def _of(count: int) -> AgentGroup:
    made = AgentGroup(QUERY, SECRET, 20, client=_Silent)  # type: ignore[arg-type]
    made.add_agents([AgentDescriptor(0, 0, 0, 1, f"{number:032x}", "", "", 0, "", "", "") for number in range(count)])
    return made


def test_calls_of_each_epoch_use_the_same_threads() -> None:
    agents = 8
    together, group = threading.Barrier(agents), _of(agents)

    def asked(_: object) -> threading.Thread:
        together.wait(20)
        return threading.current_thread()

    seen = [set(group.each(asked).values()) for _ in range(5)]
    assert {len(threads) for threads in seen} == {agents}
    used = set[threading.Thread]().union(*seen)
    assert len(used) == agents
    group.close()
    assert not any(thread.is_alive() for thread in used)


def test_an_error_is_raised_once_all_calls_have_ended() -> None:
    group, ended = _of(3), list[str]()
    failed = threading.Event()

    def call(client: AgentClient) -> None:
        if client.descriptor == group.agents[0]:
            failed.set()
            raise AgentUnavailableError("it is gone")
        assert failed.wait(20)
        ended.append(client.descriptor.incarnation)

    with pytest.raises(StateLostError, match="it is gone"):
        group.each(call)
    assert len(ended) == 2
    group.close()


def test_agents_may_be_added_while_another_thread_looks_at_them() -> None:
    group = _of(2)
    (first, second), (*_, third) = group.agents, _of(3).agents

    def seen(_: AgentClient) -> AgentDescriptor:
        group.add_agents([third])  # as the other thread does it
        return first

    group._clients[first.incarnation] = type("Seen", (), {"descriptor": property(seen)})()
    assert group.agents == [first, second]
    assert group.names == [first.incarnation, second.incarnation, third.incarnation]
