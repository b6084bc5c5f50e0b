"""The runtime directory: where an executor's processes meet its agent. Private to the user, one for each JVM.

    <root>/<jvm pid>-<jvm start time>/         mode 0700
        lock                                   held while a process looks for the agent or starts it
        <name>.alive                           held by the agent for as long as it lives
        <name>.json  <name>.sock  <name>.log   descriptor, Unix socket, log of the agent; <name> stands for the secret

    <temporary directory>/pyslash-<uid>-failed/  logs of the last agents that did not start

The agent holds the folder, too, for as long as it lives: cleaners of temporary folders that know of locks, as
systemd-tmpfiles does, leave it alone then. Others may take files at any time: `presence` puts them back.

The default root is <temporary directory>/pyslash-<uid>-<name>: a process that does not know the secret cannot create it
first. Processes signal that they are alive by locks (flock), which the kernel releases when their holder dies:
containers that share the directory may have pids of their own.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pyslash.errors import AgentStartError
from pyslash.protocol import process

_LOCK = "lock"
_FAILED = "failed"  # in the place of a name, which has hexadecimal digits alone
_MOST_FAILED = 20
_DIRECTORY = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")


@dataclass(frozen=True)
class RuntimeDirectory:
    """The paths of one agent; `open_runtime` makes and checks the folder."""

    path: Path
    name: str

    @property
    def beacon(self) -> str:
        """The name of a file in the agent's memory, by which it is found without any other file: it tells the JVM."""
        return f"pyslash-{self.name}-{self.path.name}"

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

    @property
    def life(self) -> Path:
        """Locked by the agent for as long as it lives."""
        return self.path / f"{self.name}.alive"

    def make(self) -> None:
        """Creates what is missing of the folders.

        Raises:
            AgentStartError: another user's directory stands there, or a link does.
        """
        self.path.parent.parent.mkdir(parents=True, exist_ok=True)
        for directory in (self.path.parent, self.path):
            _make_private(directory)

    def hold_life(self) -> int:
        """Locks `life` until this process ends, or closes the descriptor that it returns.

        Raises:
            AgentStartError: another process holds it.
        """
        handle = os.open(self.life, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _locked(handle):
            os.close(handle)
            raise AgentStartError(f"an agent already runs in {self.path}, and only one may")
        return handle

    def hold_folder(self) -> int:
        """Shares a lock of the folder, as `hold_life`; none at a moment when a cleaner or a sweep has it."""
        handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return handle

    def seen_beacon(self) -> str | None:
        """What the agent of this place has written into its beacon, which is nothing until it answers; None: no agent.

        It looks at processes: for whoever finds no file.
        """
        for process_folder in Path("/proc").iterdir():
            if not process_folder.name.isdecimal():
                continue
            try:
                if b"pyslash.agent" not in (process_folder / "cmdline").read_bytes():
                    continue
                for file in (process_folder / "fd").iterdir():
                    if os.readlink(file) == f"/memfd:{self.beacon} (deleted)":
                        return file.read_text()
            except OSError:
                continue  # another user's, or it has ended meanwhile
        return None

    @property
    def is_alive(self) -> bool:
        """Whether an agent holds `life`."""
        return _is_held(self.life)

    @contextmanager
    def lock(self, deadline: float) -> Iterator[None]:
        """Holds the directory's lock; the kernel releases it if the holder dies.

        Raises:
            AgentStartError: somebody else held it until `deadline` (of `time.monotonic`).
        """
        file = self.path / _LOCK
        while True:
            self.make()
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if _locked(handle) and is_open_file(file, handle):
                    yield
                    return
            finally:
                os.close(handle)
            if time.monotonic() >= deadline:
                raise AgentStartError(f"waited for the lock {file} past the deadline")
            time.sleep(0.01)

    def remove_agent_files(self) -> None:
        """Removes the socket and the descriptor of an agent that has ended. Its log stays readable."""
        self.socket.unlink(missing_ok=True)
        self.descriptor.unlink(missing_ok=True)

    def keep_log(self) -> Path:
        """Moves the log of an agent that did not start to where it outlives its JVM; returns where it is now."""
        root = self.path.parent
        kept = root.with_name(default_root(_FAILED).name) / f"{self.path.name}-{self.name}.log"
        with suppress(OSError, AgentStartError):  # the start has failed already, and its cause is more than its log
            _make_private(kept.parent)
            self.log.replace(kept)
            for old in sorted(kept.parent.iterdir(), key=lambda file: file.stat().st_mtime)[:-_MOST_FAILED]:
                old.unlink(missing_ok=True)
        return kept if kept.exists() else self.log

    def remove(self) -> None:
        """Removes the whole directory, because its JVM is gone. A default root is removed with its last directory."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.path.parent.name == default_root(self.name).name:
            with suppress(OSError):
                self.path.parent.rmdir()


def default_root(name: str) -> Path:
    """<temporary directory>/pyslash-<uid>-<name>; `name` stands for the secret (`token.secret_name`)."""
    return Path(tempfile.gettempdir()) / f"pyslash-{os.geteuid()}-{name}"


def default_roots() -> list[Path]:
    """The existing roots of all of this user's applications."""
    pattern = default_root("*")
    return list(pattern.parent.glob(pattern.name))


def open_runtime(root: str | None, jvm_pid: int, jvm_start: int, name: str) -> RuntimeDirectory:
    """Creates missing directories, and checks that no other user owns or can enter them.

    Raises:
        AgentStartError: another user's directory stands there, or a link does.
    """
    base = Path(root) if root else default_root(name)
    runtime = RuntimeDirectory(base / f"{jvm_pid}-{jvm_start}", name)
    runtime.make()
    return runtime


def sweep(root: Path) -> int:
    """Removes the directories of agents that are gone, and whose JVM is; returns how many.

    Below `root`, and below the default roots of this user's other applications.
    """
    removed = 0
    for other in {root, *default_roots()}:
        try:
            if not _is_private(other.lstat()):
                continue
            removed += sum(_removed(entry) for entry in other.iterdir())
            if other != root:
                other.rmdir()
        except OSError:
            continue  # somebody else is at it, or it holds a directory that is in use
    return removed


def _removed(directory: Path) -> bool:
    """Whether no agent uses the directory any more, and it was removed."""
    named = _DIRECTORY.fullmatch(directory.name)
    if named is None or not stat.S_ISDIR(directory.lstat().st_mode):
        return False  # not ours
    pid, started = map(int, named.groups())
    if process.is_alive(pid, started):
        return False
    # A pid of another namespace does not exist here, and yet its agent may live, or be about to start.
    handle = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _locked(handle) or _is_held(directory) or any(_is_held(life) for life in directory.glob("*.alive")):
            return False
        shutil.rmtree(directory, ignore_errors=True)
        return True
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    """Locks a file until its handle is closed, unless somebody else holds it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_held(file: Path) -> bool:
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(handle)
    finally:
        os.close(handle)


def is_open_file(file: Path, handle: int) -> bool:
    """Whether the file of this name is the open one: it may have been removed, and another one made, since."""
    try:
        return os.path.samestat(file.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _make_private(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise AgentStartError(f"cannot make the runtime directory {directory}: {error.strerror}") from error
    found = directory.lstat()
    if not _is_private(found):
        raise AgentStartError(
            f"{directory} must be a directory of user {os.geteuid()} with mode 0700; it is of user {found.st_uid} "
            f"with mode {stat.filemode(found.st_mode)}. Remove it, or let TMPDIR name another directory"
        )


def _is_private(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
