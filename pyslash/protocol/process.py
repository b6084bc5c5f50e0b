"""Which process is it? A pid alone is reused; a pid together with its start time is not."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path


def start_time(pid: int) -> int | None:
    """Clock ticks since boot at which `pid` started; None if there is no such process, or it has exited.

    Field 22 of /proc/PID/stat. The second field, the command, may itself hold spaces and brackets.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    after_command = stat[stat.rindex(b")") + 2 :].split()
    if after_command[0] in (b"Z", b"X"):
        return None
    return int(after_command[19])


def is_alive(pid: int, started: int) -> bool:
    """Whether the very process that started at `started` still runs."""
    return start_time(pid) == started


def boot_id() -> str:
    """The identity of this boot of this host: equal for two processes only if they share a kernel."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def parent_of(pid: int) -> int:
    """The parent's pid; 0 above the first process, or if `pid` is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(stat[stat.rindex(b")") + 2 :].split()[1])


def is_java(pid: int) -> bool:
    """Whether `pid` is a Java virtual machine, however it was launched: it has libjvm mapped."""
    try:
        return b"/libjvm.so" in Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return False


def nearest_jvm(pid: int | None = None) -> int | None:
    """The nearest ancestor of `pid` (default: of this process) that is a JVM: a Python worker's executor."""
    ancestor = parent_of(os.getpid() if pid is None else pid)
    while ancestor > 1:
        if is_java(ancestor):
            return ancestor
        ancestor = parent_of(ancestor)
    return None


def kill(pid: int, started: int, deadline_ms: int = 5000) -> None:
    """Ends the very process that started at `started`, and returns when it is gone; nothing if it already is.

    Raises:
        TimeoutError: it outlived SIGKILL by `deadline_ms`.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # The handle pins the process; only now is the comparison free of a race with pid reuse.
        if not is_alive(pid, started):
            return
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        if not poll.poll(deadline_ms):
            raise TimeoutError(f"process {pid} is still there {deadline_ms} ms after SIGKILL")
    except ProcessLookupError:
        return
    finally:
        os.close(handle)
