"""A network namespace for each executor, on a veth pair to one bridge, with a link that may be slowed down."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_BURST_BYTES = 256 << 10
_DRIVER = "10.213.255.254"


@dataclass(frozen=True)
class Host:
    """Where an executor is started: its address, and the words that a command begins with to run there."""

    address: str
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True)
class Network:
    """The hosts, this process's address among them, and what the links between them are not, in words."""

    hosts: list[Host]
    driver: str
    lacks: list[str]


@contextmanager
def network(count: int, gbit: float = 0, delay_ms: float = 0, *, driver: bool = False) -> Iterator[Network]:
    """So many hosts until the end of the block. `gbit` is a link's rate, 0 for none; `delay_ms` is of each packet.
    `driver`: this process's own network reaches them, of one such network at a time.

    What this machine cannot do is left out, and said in `lacks`. What a killed process has left of its network goes.

    Raises:
        RuntimeError: another process has a network that it reaches; both would have the same addresses.
    """
    obstacle = _obstacle()
    if obstacle:
        shared = Host("127.0.0.1")
        yield Network(
            [shared] * count, shared.address, [f"no network namespaces: {obstacle}; all executors share loopback"]
        )
        return
    _clean()
    if driver and (other := _run("ip", "-oneline", "address", "show", "to", _DRIVER)):
        raise RuntimeError(f"a process that runs has such a network (ps<its id>b), wait for its end: {other}")
    with ExitStack() as undo:
        name = f"ps{os.getpid()}"
        _run("ip", "link", "add", f"{name}b", "type", "bridge")
        undo.callback(_try, "ip", "link", "del", f"{name}b")
        if driver:
            _run("ip", "addr", "add", f"{_DRIVER}/16", "dev", f"{name}b")
        _run("ip", "link", "set", f"{name}b", "up")
        lacks: list[str] = []
        hosts = [_host(undo, name, index, gbit, delay_ms, lacks) for index in range(count)]
        yield Network(hosts, _DRIVER, lacks)


def _host(undo: ExitStack, name: str, index: int, gbit: float, delay_ms: float, lacks: list[str]) -> Host:
    space, outer = f"{name}n{index}", f"{name}v{index}"
    address = f"10.213.{index // 250}.{index % 250 + 1}"
    _run("ip", "netns", "add", space)
    undo.callback(_try, "ip", "netns", "del", space)
    _run("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
    # Before its space, whose links the kernel ends at its leisure: the next network has the same names.
    undo.callback(_try, "ip", "link", "del", outer)
    _run("ip", "link", "set", outer, "master", f"{name}b", "up")
    inside = ("nsenter", f"--net=/run/netns/{space}")
    _run(*inside, "ip", "addr", "add", f"{address}/16", "dev", "eth0")
    for device in ("lo", "eth0"):
        _run(*inside, "ip", "link", "set", device, "up")
    shapes = {
        f"a rate of {gbit:g} Gbit/s": (
            "tbf",
            "rate",
            f"{gbit * 1e9:.0f}bit",
            "burst",
            str(_BURST_BYTES),
            "latency",
            "50ms",
        ),
        f"a delay of {delay_ms:g} ms": ("netem", "delay", f"{delay_ms:g}ms"),
    }
    wanted = [gbit > 0, delay_ms > 0]
    if all(wanted):
        raise ValueError("a link has a rate or a delay, not both")
    for (what, shape), is_wanted in zip(shapes.items(), wanted, strict=True):
        if is_wanted and not _try(*inside, "tc", "qdisc", "add", "dev", "eth0", "root", *shape):
            said = f"no link has {what}: this kernel has no {shape[0]}"
            if said not in lacks:
                lacks.append(said)
    return Host(address, inside)


def _clean() -> None:
    """Delete what networks of processes that have ended have left."""
    links, spaces = Path("/sys/class/net"), Path("/run/netns")
    bridges = [re.fullmatch(r"(ps(\d+))b", link.name) for link in links.iterdir()]
    for name, process in (bridge.groups() for bridge in bridges if bridge):
        if Path("/proc", process).exists():
            continue
        for link in list(links.glob(f"{name}[bv]*")):
            _try("ip", "link", "del", link.name)
        for space in list(spaces.glob(f"{name}n*")):
            _try("ip", "netns", "del", space.name)


def _obstacle() -> str:
    if os.geteuid() != 0:
        return "they need root"
    missing = [program for program in ("ip", "nsenter") if shutil.which(program) is None]
    if missing:
        return f"{' and '.join(missing)} not found"
    probe = f"ps{os.getpid()}probe"
    if not _try("ip", "netns", "add", probe):
        return "ip netns add fails"
    return "" if _try("ip", "netns", "del", probe) else "ip netns del fails"


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _try(*command: str) -> bool:
    with suppress(OSError):
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    return False
