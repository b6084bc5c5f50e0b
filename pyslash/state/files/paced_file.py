"""A file that is written no faster than it may be, so that what is urgent finds its disk idle."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pyslash.state.files.directory import WrittenFile

_PIECE_BYTES = 1 << 20
# Bytes that are merely written wait in memory for the disk, to go there all at once at the end of the file.
_PIECES_A_WRITEBACK = 8
_NAP_SECONDS = 0.25


class PacedFile:
    """Writes to `file`, at most so many bytes a second from now on."""

    closed = False

    def __init__(self, file: WrittenFile, bytes_per_second: int, check: Callable[[], None] = lambda: None) -> None:
        """`check` is called before each piece and while it waits, and raises if the file is of no use any more."""
        self._file = file
        self._rate = bytes_per_second
        self._check = check
        self._begun = time.monotonic()
        self._pieces = 0

    def write(self, data: Any) -> int:
        """Pass it on in pieces, and return once the last one is due."""
        view = memoryview(data).cast("B")
        for at in range(0, len(view), _PIECE_BYTES):
            self._check()
            self._file.write(view[at : at + _PIECE_BYTES])
            self._pieces += 1
            if self._pieces % _PIECES_A_WRITEBACK == 0:
                self._file.start_writeback()
            while (ahead := self._file.size / self._rate - (time.monotonic() - self._begun)) > 0:
                time.sleep(min(ahead, _NAP_SECONDS))
                self._check()
        return len(view)

    def tell(self) -> int:
        """Where the next byte goes."""
        return self._file.tell()

    def flush(self) -> None:
        """Whoever has opened the file closes it."""

    close = flush
