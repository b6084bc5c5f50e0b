"""Memory of the test's own, for `Transport.bring`."""

from __future__ import annotations

from typing import Any


class Target:
    """So many zeros, until something is brought."""

    def __init__(self, size: int) -> None:
        self.bytes = bytearray(size)

    def view(self, at: int, length: int) -> memoryview:
        """`Memory.view`."""
        return memoryview(self.bytes)[at : at + length]

    def write(self, data: Any, at: int) -> None:
        """`Memory.write`."""
        self.view(at, memoryview(data).nbytes)[:] = memoryview(data).cast("B")
