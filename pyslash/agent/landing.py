"""Memory that blocks of other agents are brought to: a file that a task of this host maps.

A landing belongs to one connection, and is gone with it, so nothing is left behind when a task, its executor or its
driver ends in the middle. What is not brought takes no memory.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyslash._native import Arena
from pyslash.errors import AgentError
from pyslash.transport.reserved import write_all
from pyslash.units import Epoch

# What an arena has before its first block, and may lose to alignment.
_TABLES_BYTES = 2 << 20


class Landing:
    """Room for blocks: `size` bytes from `start` on of the file `fd`, which begins as an arena does.

    Landings of one version of a query's state, if it has a name, share what they hold.
    """

    def __init__(self, fd: int, start: int, size: int, version: str = "") -> None:
        """Mapped whole; that takes no memory."""
        self.fd, self.start, self.size, self.version = fd, start, size, version
        self._bytes = memoryview(mmap.mmap(fd, start + size))[start:]

    def view(self, at: int, length: int) -> memoryview:
        """Memory for the system to fill. Where there is none left, its calls fail; whoever writes by himself dies."""
        return self._bytes[at : at + length]

    def write(self, data: Any, at: int) -> None:
        """Copies bytes that are in this process.

        Raises:
            AgentError: this host has no memory for them.
        """
        try:
            write_all(self.fd, data, self.start + at)
        except OSError as error:
            raise AgentError(
                f"this host has no memory for {memoryview(data).nbytes} bytes of a block: {error}"
            ) from None


@contextmanager
def landing(size: int, incarnation: bytes, query: bytes, version: str = "") -> Iterator[Landing]:
    """An empty landing in an arena of this incarnation; its memory goes with the last process that maps it."""
    fd = os.memfd_create("pyslash-landing", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        arena = Arena.create(fd, size + _TABLES_BYTES, incarnation)
        start = arena.allocate(size, query, Epoch(0))
        arena.close()
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        yield Landing(fd, start, size, version)
    finally:
        os.close(fd)
