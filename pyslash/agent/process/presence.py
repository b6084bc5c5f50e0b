"""What others find an agent by, kept in place for as long as it lives.

Some hosts clean their temporary folders: files that nobody has written to for days go, with the lock that says that
the agent lives. Its successor would be empty, so the agent puts back what is missing, every second; and whoever looks
for it before that finds its *beacon*, a file in memory whose name says whose agent it is, and which ends with it.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from pyslash.agent.process.runtime import RuntimeDirectory, is_open_file
from pyslash.errors import AgentStartError

_MOST_LOG_BYTES = 16 << 20
_KEPT_LOG_BYTES = 1 << 20

_log = logging.getLogger(__name__)


class Presence:
    """The files of one agent. Held from the first moment of its life, announced once it answers."""

    def __init__(self, runtime: RuntimeDirectory) -> None:
        """Nobody else may hold the place.

        Raises:
            AgentStartError: another agent does.
        """
        self._runtime = runtime
        self._beacon = os.memfd_create(runtime.beacon, os.MFD_CLOEXEC)
        self._folder = runtime.hold_folder()
        self._life = runtime.hold_life()
        self._descriptor = ""
        self._listen: Callable[[str], None] = lambda path: None
        self._socket: os.stat_result | None = None

    def announce(self, listen: Callable[[str], None], descriptor: str) -> None:
        """Listens on the runtime's socket by `listen(path)`, then says so: `descriptor` is one line of JSON."""
        self._listen, self._descriptor = listen, descriptor
        self._open_socket()
        os.pwrite(self._beacon, descriptor.encode(), 0)
        self._write_descriptor()

    def keep(self) -> None:
        """Puts back what is missing; what cannot be put back now is tried again the next time. Of a log that has grown
        its end is kept.
        """
        try:
            self._limit_log()
            if self._is_whole():
                return
            self._runtime.make()
            if not is_open_file(self._runtime.path, self._folder):
                self._folder = _instead_of(self._folder, self._runtime.hold_folder())
            if not is_open_file(self._runtime.life, self._life):
                self._life = _instead_of(self._life, self._runtime.hold_life())
            if not self._runtime.log.exists():
                self._reopen_log()
            if not self._is_socket_there():
                self._open_socket()
            self._write_descriptor()
        except (OSError, AgentStartError, RuntimeError) as error:  # the last one: no thread for another listener
            _log.warning("files in %s are missing, and cannot be put back: %s", self._runtime.path, error)
            return
        _log.warning("files in %s were missing and have been put back: does a cleaner remove them?", self._runtime.path)

    def _is_whole(self) -> bool:
        runtime = self._runtime
        held = is_open_file(runtime.path, self._folder) and is_open_file(runtime.life, self._life)
        return held and self._is_socket_there() and runtime.descriptor.exists() and runtime.log.exists()

    def _is_socket_there(self) -> bool:
        try:
            return self._socket is not None and os.path.samestat(self._runtime.socket.stat(), self._socket)
        except FileNotFoundError:
            return False

    def _open_socket(self) -> None:
        self._runtime.socket.unlink(missing_ok=True)
        try:
            self._listen(str(self._runtime.socket))
        except BaseException:
            self._runtime.socket.unlink(missing_ok=True)  # callers come again where there is none
            raise
        self._socket = self._runtime.socket.stat()

    def _write_descriptor(self) -> None:
        """All or nothing: readers see the whole file or none."""
        unfinished = self._runtime.descriptor.with_suffix(".new")
        unfinished.write_text(self._descriptor)
        unfinished.rename(self._runtime.descriptor)

    def _limit_log(self) -> None:
        log = self._runtime.log
        if log.exists() and log.stat().st_size > _MOST_LOG_BYTES:
            with open(log, "r+b") as file:
                file.seek(-_KEPT_LOG_BYTES, os.SEEK_END)
                end = file.read()
                file.seek(0)
                file.truncate()  # whoever writes to it appends
                file.write(end)

    def _reopen_log(self) -> None:
        sys.stderr.flush()
        log = os.open(self._runtime.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.close(log)


def _instead_of(before: int, now: int) -> int:
    with suppress(OSError):
        os.close(before)
    return now
