"""What a whole application takes: processor time and memory of a process and all that come from it, agents included.

A process belongs if its environment holds the application's mark: unlike the tree of parents, the mark stays with a
process that has left its parent, as pyslash's agents do.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

MARK = "PYSLASH_EVAL_APPLICATION"
SAMPLE_SECONDS = 0.5
OTHERS_LOOKS = 20  # at a process without the mark, before it is taken for another application's
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Memory:
    """Bytes: each process's own pages, and shared memory once, whoever has it mapped; pages of program files are none.

    A fork's pages count for both, although they are shared until one of them writes: to know better, the kernel would
    walk through the pages of all processes while they are to be measured.
    """

    private: int
    shared: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.private + self.shared


class Meter:
    """Measures the processes with `mark` while its block runs."""

    def __init__(self, mark: str) -> None:
        self._mark = f"{MARK}={mark}".encode()
        self._unmarked = Counter[int]()  # how often each process that lives had an environment without the mark
        self._over = threading.Event()
        self.cpu_seconds = 0.0
        self.peak_bytes = 0
        self._samples: list[tuple[float, float]] = []  # when, and processor time until then

    def __enter__(self) -> Meter:
        self._began = self._cpu()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self.cpu_seconds = self._cpu() - self._began

    def _sample(self) -> None:
        while True:
            last = self._over.wait(SAMPLE_SECONDS)
            self._samples.append((time.time(), self._cpu()))
            self.peak_bytes = max(self.peak_bytes, memory(self.processes()).total)
            if last:
                return

    def cpu_between(self, begin: float, end: float) -> float:
        """Processor seconds from one time (seconds since 1970) to another, to the nearest samples."""
        first, last = (min(self._samples, key=lambda sample: abs(sample[0] - at)) for at in (begin, end))
        return last[1] - first[1]

    def _cpu(self) -> float:
        return sum(map(cpu_seconds, self.processes()))

    def processes(self) -> list[int]:
        """The application's processes that live."""
        alive = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        for pid in self._unmarked.keys() - alive:
            del self._unmarked[pid]  # the kernel gives the number again
        mine = []
        for pid in alive:
            if self._unmarked[pid] == OTHERS_LOOKS:
                continue
            # Between fork and exec a process has the environment that its parent began with; in the middle of an exec,
            # none. A JVM has come through several of both, and is this application's for all that.
            environment = _environment(pid)
            if self._mark in environment:
                mine.append(pid)
            elif environment:
                self._unmarked[pid] += 1
        return mine


def cpu_seconds(pid: int, with_children: bool = True) -> float:
    """User and system time of a process, and of its children that are gone; 0 if it is gone itself."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if with_children else 13])) / _TICKS


def memory(pids: list[int]) -> Memory:
    """What these processes hold together, now.

    Pages of a memfd count even where no process has them mapped any more: the kernel keeps them as long as it is open.
    """
    private = 0
    files: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            found = re.search(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
            private += int(found[1]) * 1024 if found else 0
            files |= _memfds(pid)
    return Memory(private, sum(files.values()))


def _memfds(pid: int) -> dict[int, int]:
    """Bytes of each memfd that a process has open, by inode."""
    found = {}
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if os.readlink(f"{folder}/{name}").startswith("/memfd:"):
                status = os.stat(f"{folder}/{name}")
                found[status.st_ino] = status.st_blocks * 512
    return found


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
