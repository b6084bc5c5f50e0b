"""RDMA: pyverbs, devices, rights, and a READ that needs all of them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

from pyslash.errors import SlashError, TransportUnavailableError
from pyslash.inspect.doctor.finding import Finding, Status
from pyslash.rdma.library import library
from pyslash.rdma.loopback import loopback
from pyslash.rdma.port import SYSFS, Port, choose_port, ports

_NO_DEVICE_FIX = (
    "no device is needed: peers on other hosts are read over tcp. To try RDMA, scripts/setup_rxe.sh creates a "
    "Soft-RoCE device if the kernel has rdma_rxe, and scripts/rxe_lab runs one in QEMU on any machine"
)


def rdma(required: bool, sysfs: Path = SYSFS, nodes: Path = Path("/dev/infiniband")) -> Iterator[Finding]:
    """All of RDMA's findings. What is missing is a failure only if it is `required`."""
    missing = Status.FAILURE if required else Status.ABSENT
    usable, unusable = ports(sysfs)
    if not usable and not unusable:
        yield Finding("rdma device", missing, "this host has no RDMA device", _NO_DEVICE_FIX)
        yield _pyverbs(missing)
        return
    for port in usable:
        yield Finding("rdma device", Status.OK, f"{port}, GID {port.gid_index}: {port.gid}, {_rate(sysfs, port)}")
    fix = "give its interface an address and bring it up (ip link set ... up), or start the subnet manager (InfiniBand)"
    for reason in unusable:
        yield Finding("rdma device", Status.WARNING if usable else Status.FAILURE, reason, fix)
    yield _pyverbs(Status.FAILURE)
    yield _rights(nodes)
    try:
        yield _loopback(choose_port())
    except TransportUnavailableError as error:
        yield Finding("rdma read", Status.FAILURE, str(error), "see the findings above")


def verdict(findings: list[Finding]) -> Finding:
    """Which transport `auto` takes to a peer on another host."""
    read = next((finding for finding in findings if finding.check == "rdma read"), None)
    if read is not None and read.status is Status.OK:
        return Finding("transport", Status.OK, "auto: shm on one host, verbs to peers on the same fabric, else tcp")
    reason = next((finding.found for finding in findings if finding.status in (Status.FAILURE, Status.ABSENT)), "")
    return Finding("transport", Status.OK, f"auto: shm on one host, tcp to others, because {reason}")


def _pyverbs(missing: Status) -> Finding:
    try:
        library()
    except TransportUnavailableError as error:
        return Finding("pyverbs", missing, str(error).partition(": install")[0], _pyverbs_fix())
    spec = importlib.util.find_spec("pyverbs")
    where = "" if spec is None or spec.origin is None else str(Path(spec.origin).resolve().parent)
    return Finding("pyverbs", Status.OK, f"{where}, {_libibverbs()}")


def _pyverbs_fix() -> str:
    return (
        "Debian, Ubuntu: apt-get install python3-pyverbs ibverbs-providers, and, in a virtual environment of the "
        "system's Python version, ln -s /usr/lib/python3/dist-packages/pyverbs into its site-packages. Elsewhere: "
        "pip install pyverbs of the version of the installed rdma-core"
    )


def _libibverbs() -> str:
    mapped = Path("/proc/self/maps").read_text().split()
    return next((word for word in mapped if "libibverbs.so" in word), "libibverbs not loaded")


def _rate(sysfs: Path, port: Port) -> str:
    try:
        return (sysfs / port.device / "ports" / str(port.number) / "rate").read_text().strip()
    except OSError:
        return "unknown rate"


def _rights(nodes: Path) -> Finding:
    found = sorted(nodes.glob("uverbs*"))
    fix = "in a container pass /dev/infiniband through (--device, or a device plugin); else join the group that owns it"
    if not found:
        return Finding("device nodes", Status.FAILURE, f"there is no {nodes}/uverbs*", f"modprobe ib_uverbs; {fix}")
    closed = [node for node in found if not os.access(node, os.R_OK | os.W_OK)]
    if closed:
        return Finding("device nodes", Status.FAILURE, f"no access to {', '.join(map(str, closed))}", fix)
    return Finding("device nodes", Status.OK, ", ".join(map(str, found)))


def _loopback(port: Port) -> Finding:
    try:
        figures = loopback(port)
    except SlashError as error:
        return Finding("rdma read", Status.FAILURE, str(error), "look at dmesg, and reload the driver of the port")
    return Finding(
        "rdma read",
        Status.OK,
        f"{port}: 64 B in {figures.latency_us:.1f} us, "
        f"{figures.bytes >> 20} MiB at {figures.megabytes_per_second:.0f} MB/s",
    )
