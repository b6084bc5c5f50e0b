"""Processor time and memory of an application: all its processes, however they were started, and nobody else's."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys

import pytest

from eval import meter
from eval.meter import MARK, Meter

MIB = 1 << 20
MINE = secrets.token_hex(8)  # tests beside this one start applications, too
# A process that leaves its parent behind, as an agent does, and holds memory until its input ends.
ORPHAN = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
held = bytearray({private}); held[::4096] = b"x" * len(held[::4096])
memfd = os.memfd_create("arena"); os.truncate(memfd, {shared}); os.pwrite(memfd, b"x" * {shared}, 0)
print(os.getpid(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def orphan() -> int:
    """The process, with the mark `MINE`; it ends with the test."""
    text = ORPHAN.format(private=64 * MIB, shared=32 * MIB)
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, MARK: MINE},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        pid = int(process.stdout.readline())
        process.wait()
        yield pid


def test_a_process_that_left_its_parent_is_found_by_its_mark(orphan: int) -> None:
    assert Meter(MINE).processes() == [orphan]
    assert Meter(secrets.token_hex(8)).processes() == []


def test_a_process_is_not_given_up_for_what_its_environment_is_between_fork_and_exec(
    orphan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, read = Meter(MINE), meter._environment
    for seen, mine in ((b"", []), (b"OTHER=1\0", []), (None, [orphan])):

        def look(pid: int, seen: bytes | None = seen) -> bytes:
            return read(pid) if seen is None or pid != orphan else seen

        monkeypatch.setattr(meter, "_environment", look)
        assert found.processes() == mine


def test_a_process_that_never_has_the_mark_is_not_looked_at_for_ever(
    orphan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    monkeypatch.setattr(meter, "_environment", lambda pid: looks.append(pid) or b"OTHER=1\0")
    found = Meter(MINE)
    for _ in range(meter.OTHERS_LOOKS + 5):
        assert found.processes() == []
    assert looks.count(orphan) == meter.OTHERS_LOOKS


def test_the_number_of_a_process_that_is_gone_may_be_another_ones(orphan: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Meter(MINE)
    with monkeypatch.context() as patched:
        patched.setattr(meter, "_environment", lambda _: b"OTHER=1\0")
        for _ in range(meter.OTHERS_LOOKS):
            found.processes()
    assert found.processes() == []
    with monkeypatch.context() as patched:
        patched.setattr(os, "listdir", lambda _: [])
        found.processes()
    assert found.processes() == [orphan]


def test_memory_counts_private_pages_and_memfds_that_nobody_maps(orphan: int) -> None:
    found = meter.memory([orphan])
    assert 64 * MIB <= found.private < 128 * MIB
    assert 32 * MIB <= found.shared < 34 * MIB
    assert found.total == found.private + found.shared


def test_a_peak_is_measured_however_short_the_block(orphan: int) -> None:
    with Meter(MINE) as measured:
        pass
    assert measured.peak_bytes >= 96 * MIB
    assert measured.cpu_seconds < 1


def test_processor_time_includes_children_that_are_gone() -> None:
    before = meter.cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", "sum(range(5_000_000))"], check=True)
    assert meter.cpu_seconds(os.getpid()) > before


def test_a_process_that_is_gone_counts_nothing() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert meter.cpu_seconds(gone.pid) == 0
    assert meter.memory([gone.pid]).total == 0
