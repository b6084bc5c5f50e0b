"""Commands on hosts: by the system's ssh, or in this very machine, where every host is an address of loopback."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

from eval.cluster.hosts import Host

_STOP_SECONDS = 30
# Runs a command until it ends or until standard input does: when the connection is gone, so is what it has started.
_LIFELINE = """
exec 3<&0
"$@" 3<&- </dev/null & child=$!
(cat <&3 >/dev/null 2>&1; kill "$child" 2>/dev/null) & guard=$!
exec 3<&-
wait "$child"; status=$?
kill "$guard" 2>/dev/null
exit "$status"
"""


class ClusterError(Exception):
    """A host did not do what it was asked; says which, what, and where its log is."""


class Launcher(Protocol):
    """How a command gets to a host."""

    def wrap(self, host: Host, command: Sequence[str]) -> list[str]:
        """The command for this machine that runs `command` on `host`; standard streams are handed through."""


class Local:
    """Every host is this machine."""

    def wrap(self, host: Host, command: Sequence[str]) -> list[str]:
        """The command as it is."""
        return list(command)


@dataclass(frozen=True)
class Ssh:
    """OpenSSH's client, without questions: keys and host names are its own configuration's business."""

    options: tuple[str, ...] = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15")

    def wrap(self, host: Host, command: Sequence[str]) -> list[str]:
        """Ssh hands the remote shell one line, so the command is quoted here."""
        return ["ssh", *self.options, host.name, shlex.join(command)]


LAUNCHERS: dict[str, Launcher] = {"ssh": Ssh(), "local": Local()}


def run(
    launcher: Launcher, host: Host, command: Sequence[str], environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """A command's end.

    Raises:
        ClusterError: it did not end in time, or could not be begun.
    """
    words = launcher.wrap(host, _with(environment, command))
    try:
        return subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{host.name}: {command[0]} had not ended within {seconds:.0f} s") from None
    except OSError as error:
        raise ClusterError(f"{host.name}: {words[0]}: {error.strerror}") from None


class Daemon:
    """A command that runs on a host until this is closed, or until this process is gone."""

    def __init__(
        self, launcher: Launcher, host: Host, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> None:
        """Started; its output goes to `log`, here."""
        self.host, self.log = host, log
        words = launcher.wrap(host, ["sh", "-c", _LIFELINE, "lifeline", *_with(environment, command)])
        with log.open("wb") as file:
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=file, stderr=file)

    def check(self) -> None:
        """Raises ClusterError if it has ended, with the last lines of its log."""
        if (status := self._process.poll()) is not None:
            tail = "\n  ".join(self.log.read_text(errors="replace").splitlines()[-5:])
            raise ClusterError(f"{self.host.name}: ended with status {status}; the end of {self.log}:\n  {tail}")

    def close(self) -> None:
        """It has ended when this returns."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Daemon:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _with(environment: Mapping[str, str], command: Sequence[str]) -> list[str]:
    """Ssh carries no environment, so `env` sets it on the other side."""
    return ["env", *(f"{name}={value}" for name, value in environment.items()), *command]
