"""Memory: whether the arena fits this machine or container, and how much may be locked."""

from __future__ import annotations

import resource
from pathlib import Path

from pyslash.conf import Conf
from pyslash.inspect.doctor.finding import Finding, Status
from pyslash.memory import Container, Get, Room

LOCKED_FIX = (
    "RDMA pins the arena: set 'LimitMEMLOCK=infinity' in the service that starts executors, or "
    "'* - memlock unlimited' in /etc/security/limits.conf; in containers the IPC_LOCK capability or "
    "--ulimit memlock=-1"
)


def arena(arena_bytes: int, meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> Finding:
    """One executor's arena against this machine's memory, or this container's."""
    room = Room.here(meminfo, cgroup)
    found = room.compared(arena_bytes)
    if arena_bytes > room.size:
        return Finding("arena", Status.FAILURE, found, "set a smaller spark.slash.arena.size")
    if arena_bytes > room.size // 2:
        fix = "leave memory for the JVM and the Python workers; every executor on this host has an arena of its own"
        return Finding("arena", Status.WARNING, found, fix)
    return Finding("arena", Status.OK, found)


def container(get: Get) -> Finding:
    """What an executor may take against what its container has, by Spark's settings (`get(full key, default)`)."""
    found = Container.of(get, Conf.read(get))
    if found is None:
        return Finding(
            "container", Status.ABSENT, "executors run in no container, or --properties-file does not say so"
        )
    if found.shortage is not None:
        return Finding("container", Status.FAILURE, *found.shortage.split(": ", 1))
    return Finding("container", Status.OK, f"{found.overhead >> 20}m outside the heap; needed: {found.account}")


def locked_memory(arena_bytes: int, has_device: bool) -> Finding:
    """RDMA pins the whole arena, once for each query that runs at a time."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == resource.RLIM_INFINITY:
        return Finding("locked memory", Status.OK, "unlimited")
    found = f"at most {soft} bytes (ulimit -l)"
    if not has_device or soft >= arena_bytes:
        return Finding("locked memory", Status.OK, found)
    return Finding("locked memory", Status.FAILURE, f"{found}, less than an arena of {arena_bytes} bytes", LOCKED_FIX)
