"""What others find an agent by is kept in place, whatever the moment is like at which it has to be put back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyslash.agent.process.presence import Presence
from pyslash.agent.process.runtime import open_runtime
from pyslash.errors import AgentStartError
from pyslash.protocol import wire


@pytest.mark.parametrize(
    "error", [RuntimeError("can't start new thread"), OSError(24, "Too many open files"), AgentStartError("a link")]
)
def test_what_cannot_be_put_back_now_is_put_back_later(runtime_root: Path, error: Exception) -> None:
    runtime = open_runtime(str(runtime_root), os.getpid(), 1, "a" * 16)
    failures, listening = list[Exception](), list[object]()

    def listen(path: str) -> None:
        if failures:
            raise failures.pop()
        listening.append(wire.listen_unix(path, 1))

    presence = Presence(runtime)
    runtime.log.touch()

    def announced() -> bool:
        return runtime.socket.exists() and runtime.descriptor.exists()

    presence.announce(listen, "{}")
    assert announced()
    runtime.remove_agent_files()
    failures.append(error)
    presence.keep()
    assert not announced()
    presence.keep()
    assert announced()


def test_files_that_cannot_be_looked_at_end_no_agent(runtime_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(*_: object) -> bool:
        raise OSError(116, "Stale file handle")

    runtime, listening = open_runtime(str(runtime_root), os.getpid(), 1, "a" * 16), list[object]()
    presence = Presence(runtime)
    runtime.log.touch()
    presence.announce(lambda path: listening.append(wire.listen_unix(path, 1)), "{}")
    with monkeypatch.context() as patched:
        patched.setattr("pyslash.agent.process.presence.is_open_file", stale)
        presence.keep()
    runtime.remove_agent_files()
    presence.keep()
    assert runtime.socket.exists()


def test_of_a_log_that_has_grown_the_end_is_kept(runtime_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = open_runtime(str(runtime_root), os.getpid(), 1, "a" * 16)
    presence, listening = Presence(runtime), list[object]()
    runtime.log.write_bytes(bytes(1000) + b"the end")
    presence.announce(lambda path: listening.append(wire.listen_unix(path, 1)), "{}")
    monkeypatch.setattr("pyslash.agent.process.presence._MOST_LOG_BYTES", 999)
    monkeypatch.setattr("pyslash.agent.process.presence._KEPT_LOG_BYTES", 7)
    presence.keep()
    assert runtime.log.read_bytes() == b"the end"
