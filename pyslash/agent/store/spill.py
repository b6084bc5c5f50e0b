"""Blocks on the executor's local disk, which a full arena has no room for.

Each is a file, mapped and unlinked at once: nothing is left of it when the agent is killed, and reading it reads memory
that the kernel may drop. The offset in its head lies beyond every arena, so that a reader sees at once that only the
agent can serve it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyslash._native import Arena
from pyslash.errors import SpillError
from pyslash.units import ArenaOffset

FIRST_PLACE = 1 << 62
_DIRECTORIES = ("SPARK_EXECUTOR_DIRS", "LOCAL_DIRS", "SPARK_LOCAL_DIRS")


class Disk:
    """The blocks that are spilled, by their places."""

    def __init__(self) -> None:
        self._offsets = count(FIRST_PLACE)
        self._files: dict[ArenaOffset, pa.Buffer] = {}
        self.bytes = 0
        self.directory = ""  # where the last one was spilled to; empty: the default one

    def __contains__(self, offset: ArenaOffset) -> bool:
        return offset in self._files

    def __len__(self) -> int:
        return len(self._files)

    def new_offset(self) -> ArenaOffset:
        """For one block; never given out twice."""
        return ArenaOffset(next(self._offsets))

    def keep(self, offset: ArenaOffset, data: pa.Buffer) -> None:
        """What `write` has made lies at this place."""
        self._files[offset] = data
        self.bytes += data.size

    def view(self, block: ArenaOffset, offset: int, length: int) -> pa.Buffer:
        """Bytes of a block; they stay valid after `free`."""
        return self._files[block].slice(offset, length)

    def free(self, offset: ArenaOffset) -> None:
        """The file goes with the last view into it."""
        self.bytes -= self._files.pop(offset).size


def write(directory: str, pieces: list[Any]) -> pa.Buffer:
    """The pieces (buffer protocol) one after the other in a file that has no name; mapped.

    Raises:
        SpillError: no room, no permission, no such directory; nothing is left of the file.
    """
    size = sum(memoryview(piece).nbytes for piece in pieces)
    folder = directory or default_directory()
    try:
        handle, path = tempfile.mkstemp(prefix="pyslash-spill-", dir=folder)
        try:
            with os.fdopen(handle, "wb", buffering=0) as file:
                for piece in pieces:
                    left = memoryview(piece).cast("B")
                    while left:
                        left = left[file.write(left) :]
            with pa.memory_map(path) as mapped:
                return mapped.read_buffer()
        finally:
            Path(path).unlink()
    except (OSError, pa.ArrowException) as error:
        raise SpillError(f"{size} bytes cannot be spilled to {folder}: {error}; see spark.slash.spill.dir") from None


@contextmanager
def scratch_arena(directory: str, size: int) -> Iterator[tuple[Any, int]]:
    """An arena of `size` bytes, and the file without a name that is its memory; gone at the end of the block.

    Raises:
        SpillError: no room for all of it. Later there is no error, for to write into a mapped file that finds no room
            would kill the process.
    """
    folder = directory or default_directory()
    with ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.TemporaryFile(prefix="pyslash-fold-", dir=folder))
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            raise SpillError(f"{size} bytes are not free in {folder}: {error}; see spark.slash.spill.dir") from None
        arena = Arena.create(file.fileno(), size, os.urandom(16))
        stack.callback(arena.close)
        yield arena, file.fileno()


def default_directory() -> str:
    """The first of the executor's local directories, as Spark or YARN names them, that exists; else the system's."""
    for name in _DIRECTORIES:
        for entry in os.environ.get(name, "").replace(os.pathsep, ",").split(","):
            if entry and os.path.isdir(entry):
                return entry
    return tempfile.gettempdir()
