"""Telling processes apart."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from pyslash.protocol import process


def test_a_process_is_known_by_pid_and_start_time() -> None:
    started = process.start_time(os.getpid())
    assert started is not None
    assert process.is_alive(os.getpid(), started)
    assert not process.is_alive(os.getpid(), started - 1)


def test_a_command_with_brackets_and_blanks_confuses_nobody() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "open('/proc/self/comm','w').write(') R 1 ('); input()"], stdin=subprocess.PIPE
    ) as named:
        assert process.parent_of(named.pid) == os.getpid()
        assert process.is_alive(named.pid, process.start_time(named.pid) or 0)
        named.kill()


def test_an_exited_process_is_gone_before_its_parent_asks_for_it() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process.start_time(child.pid) is None
    child.wait()
    assert process.start_time(child.pid) is None
    assert process.parent_of(child.pid) == 0


def test_kill_takes_the_process_meant_and_no_other() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        started = process.start_time(child.pid)
        assert started is not None
        process.kill(child.pid, started - 1)
        assert child.poll() is None
        before = time.monotonic()
        process.kill(child.pid, started)
        assert child.wait() == -9
        assert time.monotonic() - before < 5
    process.kill(child.pid, started)  # gone already


def test_this_process_is_no_jvm() -> None:
    assert not process.is_java(os.getpid())
    assert not process.is_java(1 << 30)


def test_the_nearest_jvm_is_an_ancestor(monkeypatch: pytest.MonkeyPatch) -> None:
    family = {10: 9, 9: 8, 8: 7, 7: 1}
    monkeypatch.setattr(process, "parent_of", lambda pid: family[pid])
    monkeypatch.setattr(process, "is_java", lambda pid: pid in (7, 8))
    assert process.nearest_jvm(10) == 8
    monkeypatch.setattr(process, "is_java", lambda pid: pid == 10)
    assert process.nearest_jvm(10) is None
