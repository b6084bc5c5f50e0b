"""The runtime directory: where an executor's processes meet its agent. Private to the user, one for each JVM.

    <root>/<jvm pid>-<jvm start time>/         mode 0700
        lock                                   held while somebody looks for the agent or starts it
        <name>.json  <name>.sock  <name>.log   descriptor, Unix socket, log of the agent; <name> stands for the secret

The default root is <temporary directory>/pyslash-<uid>.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyslash.agent import process
from pyslash.errors import AgentStartError

# sun_path of a Unix socket's address holds 108 bytes with the final zero.
_SOCKET_PATH_BYTES = 107


@dataclass(frozen=True)
class RuntimeDirectory:
    """The paths of one agent; `open_runtime` makes and checks the folder."""

    path: Path
    name: str

    @property
    def descriptor(self) -> Path:
        """Written by the agent once it answers."""
        return self.path / f"{self.name}.json"

    @property
    def socket(self) -> Path:
        """The control plane inside the host."""
        return self.path / f"{self.name}.sock"

    @property
    def log(self) -> Path:
        """The agent's standard output and error."""
        return self.path / f"{self.name}.log"

    @contextmanager
    def lock(self, deadline: float) -> Iterator[None]:
        """Holds the directory's lock; the kernel lets go of it if the holder dies.

        Raises:
            AgentStartError: somebody else held it until `deadline` (of `time.monotonic`).
        """
        handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        raise AgentStartError(f"waited for the lock {self.path}/lock past the deadline") from None
                    time.sleep(0.01)
            yield
        finally:
            os.close(handle)

    def remove_agent_files(self) -> None:
        """What a stopped agent leaves: its socket and descriptor go, its log stays readable.

        In this order: who finds a descriptor without an answering socket ends that agent before it starts another.
        """
        self.socket.unlink(missing_ok=True)
        self.descriptor.unlink(missing_ok=True)

    def remove(self) -> None:
        """The whole directory: its JVM is gone."""
        shutil.rmtree(self.path, ignore_errors=True)


def default_root() -> Path:
    """<temporary directory>/pyslash-<uid>."""
    return Path(tempfile.gettempdir()) / f"pyslash-{os.geteuid()}"


def open_runtime(root: str | None, jvm_pid: int, jvm_start: int, name: str) -> RuntimeDirectory:
    """Makes the directories that are missing, and checks that nobody else owns or can enter them.

    Raises:
        AgentStartError: another user's directory stands there, a link does, or its path is too long for a socket.
    """
    base = Path(root) if root else default_root()
    runtime = RuntimeDirectory(base / f"{jvm_pid}-{jvm_start}", name)
    if len(os.fsencode(runtime.socket)) > _SOCKET_PATH_BYTES:
        raise AgentStartError(
            f"{runtime.socket} is too long for a Unix socket ({_SOCKET_PATH_BYTES} bytes); choose a shorter directory"
        )
    base.parent.mkdir(parents=True, exist_ok=True)
    for directory in (base, runtime.path):
        _make_private(directory)
    return runtime


def sweep(root: Path) -> int:
    """Removes the directories below `root` whose JVM is gone; returns how many."""
    removed = 0
    for entry in root.iterdir():
        pid, _, started = entry.name.partition("-")
        if pid.isdecimal() and started.isdecimal() and not process.is_alive(int(pid), int(started)):
            shutil.rmtree(entry, ignore_errors=True)
            removed += 1
    return removed


def _make_private(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise AgentStartError(f"cannot make the runtime directory {directory}: {error.strerror}") from error
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise AgentStartError(
            f"{directory} must be a directory of user {os.geteuid()} with mode 0700; it is of user {found.st_uid} "
            f"with mode {stat.filemode(found.st_mode)}. Remove it or choose another runtime directory"
        )
