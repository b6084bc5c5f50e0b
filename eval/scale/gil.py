"""How long other processes of the same Python hold their interpreter lock: their memory is looked at from outside.

The lock is a word of `_PyRuntime` that is 1 while some thread has it. Where in it, this process finds out of itself:
it copies the structure with the lock held and released in turn, and looks for the words that follow.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sysconfig
import threading
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_TURNS = 8
_INTERVAL_SECONDS = 1e-3
_SCANNED_BYTES = 256 << 10


class Sampler(threading.Thread):
    """Looks at each process about every millisecond until `stop`; `looks` is how often it did."""

    def __init__(self, pids: Iterable[int]) -> None:
        super().__init__(name="samples the interpreter locks", daemon=True)
        offset = lock_offset()
        self._memories = {}
        self._at = {}
        for pid in pids:
            self._memories[pid] = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
            self._at[pid] = _base(pid) + offset
        self._enough = threading.Event()
        self._found = dict.fromkeys(self._memories, 0)
        self.looks = 0

    def run(self) -> None:
        """Until `stop`."""
        while not self._enough.is_set():
            for pid, memory in self._memories.items():
                (value,) = struct.unpack("<i", os.pread(memory, 4, self._at[pid]))
                self._found[pid] += value == 1
            self.looks += 1
            time.sleep(_INTERVAL_SECONDS)

    def stop(self) -> dict[int, float]:
        """The share of each process, from 0 to 1."""
        self._enough.set()
        self.join()
        for memory in self._memories.values():
            os.close(memory)
        return {pid: found / max(1, self.looks) for pid, found in self._found.items()}


@cache
def lock_offset() -> int:
    """Where the lock lies behind the first byte of the mapped interpreter. To be called first without other threads.

    Raises:
        LookupError: this Python keeps it elsewhere.
    """
    start = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    size = min(_SCANNED_BYTES, _end_of_mapping(start) - start)
    copies = [(held, _copied(start, size, held)) for held in (True, False) * _TURNS]
    words = [
        at for at in range(0, size - 3, 4) if all(struct.unpack_from("<i", one, at)[0] == held for held, one in copies)
    ]
    if len(words) != 1:
        raise LookupError(
            f"{len(words)} words of _PyRuntime look like the interpreter lock of {sysconfig.get_python_version()}"
        )
    return start + words[0] - _base(os.getpid())


def _copied(start: int, size: int, held: bool) -> bytes:
    """A PyDLL keeps the lock during a call, a CDLL releases it."""
    copy = (ctypes.PyDLL if held else ctypes.CDLL)(None).memcpy
    copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    into = ctypes.create_string_buffer(size)
    copy(into, start, size)
    return into.raw


def _mappings(pid: int) -> list[tuple[int, int, str]]:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    fields = [line.split(maxsplit=5) for line in lines]
    ends = [[int(end, 16) for end in field[0].split("-")] for field in fields]
    return [(low, high, field[5] if len(field) > 5 else "") for (low, high), field in zip(ends, fields, strict=True)]


def _base(pid: int) -> int:
    """The first byte of the file that has `_PyRuntime`, in that process."""
    own = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    # The structure may reach from the file's mapping into anonymous memory behind it: take the last file before it.
    file = [path for low, _, path in _mappings(os.getpid()) if low <= own and path.startswith("/")][-1]
    return next(low for low, _, path in _mappings(pid) if path == file)


def _end_of_mapping(start: int) -> int:
    end = start
    for low, high, _ in _mappings(os.getpid()):
        if low <= end < high:
            end = high
    return end
