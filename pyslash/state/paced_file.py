"""A file that is written no faster than it may be, so that what is urgent finds its disk idle."""

from __future__ import annotations

import time
from typing import Any

from pyslash.state.directory import WrittenFile

_PIECE_BYTES = 1 << 20


class PacedFile:
    """Writes to `file`, at most so many bytes a second from now on."""

    closed = False

    def __init__(self, file: WrittenFile, bytes_per_second: int) -> None:
        self._file = file
        self._rate = bytes_per_second
        self._begun = time.monotonic()

    def write(self, data: Any) -> int:
        """Pass it on in pieces, and return once the last one is due."""
        view = memoryview(data).cast("B")
        for at in range(0, len(view), _PIECE_BYTES):
            self._file.write(view[at : at + _PIECE_BYTES])
            ahead = self._file.size / self._rate - (time.monotonic() - self._begun)
            if ahead > 0:
                time.sleep(ahead)
        return len(view)

    def tell(self) -> int:
        """Where the next byte goes."""
        return self._file.tell()

    def flush(self) -> None:
        """Whoever has opened the file closes it."""

    close = flush
