"""A file at a pace: its bytes are those that were written, and none comes before it is due."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from pyslash.errors import FencedError
from pyslash.state.files import paced_file
from pyslash.state.files.directory import WrittenFile
from pyslash.state.files.paced_file import PacedFile

RATE = 4 << 20


class Clock:
    """Stands still but for those who sleep."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(paced_file, "time", made)
    return made


def test_bytes_are_written_when_they_are_due(clock: Clock) -> None:
    stream = io.BytesIO()
    paced = PacedFile(WrittenFile(stream), RATE)
    data = bytes(range(256)) * (10 << 12)  # 10 MiB
    assert paced.write(data) == len(data)
    assert paced.write(b"more") == 4
    assert stream.getvalue() == data + b"more"
    assert paced.tell() == len(data) + 4
    assert clock.now == pytest.approx((len(data) + 4) / RATE)


def test_the_disk_takes_bytes_as_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def advised(handle: int, begin: int, length: int, advice: int) -> None:
        assert (begin, advice) == (0, os.POSIX_FADV_DONTNEED)
        assert os.fstat(handle).st_size == length
        sizes.append(length)

    monkeypatch.setattr(os, "posix_fadvise", advised)
    with (tmp_path / "file").open("wb") as stream:
        PacedFile(WrittenFile(stream, is_local=True), 1 << 40).write(bytes(20 << 20))
        PacedFile(WrittenFile(io.BytesIO()), 1 << 40).write(bytes(20 << 20))  # of a store that is elsewhere
    assert sizes == [8 << 20, 16 << 20]


def test_what_is_of_no_use_any_more_is_given_up_while_it_waits(clock: Clock) -> None:
    def check() -> None:
        if clock.now >= 3:
            raise FencedError("over")

    stream = io.BytesIO()
    with pytest.raises(FencedError):
        PacedFile(WrittenFile(stream), 1 << 10, check).write(bytes(8 << 20))
    assert 3 <= clock.now < 4
    assert len(stream.getvalue()) == 1 << 20


def test_who_is_behind_does_not_wait(clock: Clock) -> None:
    paced = PacedFile(WrittenFile(io.BytesIO()), RATE)
    clock.now += 100
    paced.write(bytes(RATE))
    assert clock.now == 100
