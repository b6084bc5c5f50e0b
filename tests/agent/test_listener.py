"""Listening sockets where the system has no thread for another connection."""

from __future__ import annotations

import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from pyslash.agent.listener import Listener
from pyslash.errors import AgentBusyError
from pyslash.protocol import wire
from pyslash.protocol.caller import Via
from pyslash.protocol.client import AgentClient
from pyslash.protocol.token import query_token
from tests.agent.blocks import QUERY
from tests.agent.raw import connected, soon
from tests.transport.in_process import serving


class Threads:
    """A limit of the system: threads of connections do not start while `none` is set, and are counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.none = threading.Event()
        self.refused = 0
        start = threading.Thread.start

        def limited(thread: threading.Thread) -> None:
            if thread.name == "connection" and self.none.is_set():
                self.refused += 1
                if self.refused == 3:
                    self.none.clear()
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", limited)


@pytest.mark.parametrize("via", ["unix", "tcp"])
def test_a_moment_without_threads_refuses_connections_and_ends_no_listener(
    secret: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, via: Via
) -> None:
    threads = Threads(monkeypatch)
    token = query_token(secret, QUERY)
    with serving(secret, tmp_path) as made:
        agent = made.descriptor
        threads.none.set()
        with connected(agent, via) as refused, pytest.raises(AgentBusyError, match="no thread"):
            wire.greet(refused, QUERY, token, soon())
        # The client comes again by itself: the third attempt of all is the last that finds no thread.
        with AgentClient(agent, QUERY, token, via=via, timeout_seconds=20) as client:
            assert client.describe().epoch == -1
            assert threads.refused == 3
            assert client.stats()["connections"] == 1


def test_a_client_waits_for_a_thread_until_its_deadline(
    secret: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Threads(monkeypatch)
    threads.refused = 4  # beyond the one that ends the limit
    threads.none.set()
    with (
        serving(secret, tmp_path) as made,
        AgentClient(made.descriptor, QUERY, query_token(secret, QUERY), timeout_seconds=2) as client,
        pytest.raises(AgentBusyError, match=r"describe: the agent has no thread"),
    ):
        client.describe()


def test_a_socket_that_nobody_can_serve_takes_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    path = str(tmp_path / "agent.sock")
    listener = Listener(wire.listen_unix(path, 1), 8, Mock(), Mock())
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none)
        with pytest.raises(RuntimeError, match="new thread"):
            listener.start()
    with pytest.raises(ConnectionRefusedError):
        wire.connect_unix(path, 1)
