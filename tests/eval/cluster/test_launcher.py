"""Commands on hosts: what is quoted, what ends, what is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eval.cluster.hosts import Host
from eval.cluster.launcher import ClusterError, Daemon, Launcher, Local, Ssh, run
from pyslash.protocol import process

HOST = Host("node1", 2)
ODD = ["a b", "c'd", "$HOME", "e\nf", "*"]
SHOW = [sys.executable, "-c", "import sys, os; print(repr((sys.argv[1:], os.environ['ODD'])))"]
WAIT = [sys.executable, "-uc", "import os, signal; print(os.getpid()); signal.pause()"]


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    """Ssh, with a client that does as OpenSSH's does: its last argument is a line for the remote shell."""
    client = tmp_path / "bin" / "ssh"
    client.parent.mkdir()
    client.write_text('#!/bin/sh\nfor last; do :; done\nexec env -i PATH="$PATH" sh -c "$last"\n')
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    return Ssh()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)  # polling another process's state, up to the deadline


def test_ssh_asks_nothing_and_gets_one_line() -> None:
    words = Ssh().wrap(HOST, ["echo", "a b"])
    assert words[0] == "ssh"
    assert "BatchMode=yes" in words
    assert words[-2:] == ["node1", "echo 'a b'"]


def test_words_and_environment_arrive_as_they_are(ssh: Launcher) -> None:
    for launcher in (Local(), ssh):
        done = run(launcher, HOST, [*SHOW, *ODD], {"ODD": "x 'y' $z"}, 30)
        assert done.stdout.strip() == repr((ODD, "x 'y' $z"))


def test_what_does_not_end_or_begin_is_an_error() -> None:
    with pytest.raises(ClusterError, match=r"node1: .* within 0 s"):
        run(Local(), HOST, ["sleep", "60"], {}, 0.1)


def test_a_daemon_ends_when_it_is_closed(tmp_path: Path, ssh: Launcher) -> None:
    for name, launcher in (("local", Local()), ("ssh", ssh)):
        log = tmp_path / name
        with Daemon(launcher, HOST, WAIT, {}, log) as daemon:
            until(lambda log=log: log.read_text().endswith("\n"))
            daemon.check()
            pid = int(log.read_text())
            started = process.start_time(pid)
        assert started is not None
        until(lambda pid=pid, started=started: not process.is_alive(pid, started))


def test_a_daemon_ends_with_whoever_started_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "import pathlib, sys, signal\nfrom eval.cluster.launcher import *\nfrom eval.cluster.hosts import Host\n"
    code += "d = Daemon(Local(), Host('h', 1), sys.argv[2:], {}, pathlib.Path(sys.argv[1]))\nsignal.pause()"
    parent = subprocess.Popen([sys.executable, "-c", code, str(log), *WAIT])
    until(lambda: log.exists() and log.read_text().endswith("\n"))
    pid = int(log.read_text())
    started = process.start_time(pid)
    assert started is not None
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    until(lambda: not process.is_alive(pid, started))


def test_a_daemon_that_ended_says_its_last_words(tmp_path: Path) -> None:
    with Daemon(Local(), HOST, ["sh", "-c", "echo no such device; exit 3"], {}, tmp_path / "log") as daemon:

        def ended() -> bool:
            try:
                daemon.check()
            except ClusterError:
                return True
            return False

        until(ended)
        with pytest.raises(ClusterError, match=r"(?s)status 3.*no such device"):
            daemon.check()
