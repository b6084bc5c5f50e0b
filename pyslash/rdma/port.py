"""Which port of which device, and which of its GIDs: read from sysfs, so that a machine without RDMA needs no library.

A *fabric* names the network of a port. The names on two hosts are equal exactly if their ports can be expected to reach
each other: "roce 10.77.0.0/24" (RoCE v2 on that subnet) or "infiniband fe80:0000:0000:0000" (subnet prefix).
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import re
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyslash.errors import TransportUnavailableError

SYSFS = Path("/sys/class/infiniband")
DEVICE_VARIABLE = "PYSLASH_RDMA_DEVICE"
"""Environment variable of a host: the device to use, as DEVICE, DEVICE:PORT or DEVICE:PORT:GID_INDEX."""
TRAFFIC_CLASS_VARIABLE = "PYSLASH_RDMA_TRAFFIC_CLASS"
"""Environment variable of a host: the traffic class of its RoCE packets, 0 to 255. DSCP is its upper six bits."""

_WANTED = re.compile(r"^([^:]+)(?::(\d+))?(?::(\d+))?$")
_SIOCGIFNETMASK = 0x891B
_MOST_TRAFFIC_CLASS = 255
_NO_GID = ":".join(["0000"] * 8)
# Tables have up to 1024 entries, filled from the front; entries that went leave gaps, but not that long ones.
_LONGEST_GAP = 64

NetworkOf = Callable[[str, ipaddress.IPv4Address], ipaddress.IPv4Network]


@dataclass(frozen=True)
class Port:
    """An active port with the GID to use. `lid` is 0 on Ethernet, `netdev` and `address` are empty on InfiniBand."""

    device: str
    number: int
    link_layer: str
    lid: int
    gid_index: int
    gid: str
    netdev: str
    address: str
    fabric: str

    def __str__(self) -> str:
        """For messages."""
        where = f", {self.netdev} {self.address}" if self.netdev else ""
        return f"{self.device}/{self.number} ({self.fabric}{where})"


def network_of_interface(netdev: str, address: ipaddress.IPv4Address) -> ipaddress.IPv4Network:
    """The subnet of an interface's address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            request = struct.pack("256s", netdev.encode()[:15])
            mask = socket.inet_ntoa(fcntl.ioctl(any_socket.fileno(), _SIOCGIFNETMASK, request)[20:24])
        except OSError:
            mask = "255.255.255.255"  # the interface has lost its address meanwhile: nobody is on its subnet
    return ipaddress.IPv4Network((address, mask), strict=False)


def ports(sysfs: Path = SYSFS, network_of: NetworkOf = network_of_interface) -> tuple[list[Port], list[str]]:
    """Every active port's usable GIDs, best first, and for each port without one the reason."""
    usable: list[Port] = []
    unusable: list[str] = []
    for device in sorted(sysfs.iterdir()) if sysfs.is_dir() else []:
        for folder in sorted((device / "ports").iterdir()):
            name = f"{device.name}/{folder.name}"
            state = _read(folder / "state")
            if not state.endswith("ACTIVE"):
                unusable.append(f"{name} is {state.partition(': ')[2] or 'in no known state'}")
            elif found := _gids(device.name, folder, network_of):
                usable += found
            else:
                unusable.append(f"{name} has no RoCE v2 GID: its interface has no address")
    return usable, unusable


def choose_port(
    fabric: str | None = None,
    host: str | None = None,
    wanted: str | None = None,
    found: tuple[list[Port], list[str]] | None = None,
) -> Port:
    """The port to use: what `wanted` (default: the environment variable) says, on `fabric` if given.

    Among several, the one whose interface has the address of `host`, else the first.

    Raises:
        TransportUnavailableError: there is none; the message says why.
    """
    usable, unusable = ports() if found is None else found
    if not usable:
        raise TransportUnavailableError(
            f"no RDMA device is usable here: {'; '.join(unusable)}" if unusable else "this host has no RDMA device"
        )
    wanted = os.environ.get(DEVICE_VARIABLE, "") if wanted is None else wanted
    candidates = [port for port in usable if _is_wanted(port, wanted)]
    if not candidates:
        raise TransportUnavailableError(
            f"{DEVICE_VARIABLE}={wanted}, but the usable ports are {', '.join(sorted({str(port) for port in usable}))}"
        )
    if fabric is not None:
        on_fabric = [port for port in candidates if port.fabric == fabric]
        if not on_fabric:
            raise TransportUnavailableError(
                f"no port of this host is on the peer's fabric {fabric}: {', '.join(str(port) for port in candidates)}"
            )
        candidates = on_fabric
    addresses = _addresses(host) if host and len(candidates) > 1 else set()
    return next((port for port in candidates if port.address in addresses), candidates[0])


def traffic_class() -> int:
    """What the environment says; 0 if nothing.

    Raises:
        TransportUnavailableError: it says no such number.
    """
    text = os.environ.get(TRAFFIC_CLASS_VARIABLE, "0")
    if not text.isdecimal() or int(text) > _MOST_TRAFFIC_CLASS:
        raise TransportUnavailableError(
            f"{TRAFFIC_CLASS_VARIABLE}={text} is not a number from 0 to {_MOST_TRAFFIC_CLASS}"
        )
    return int(text)


def _gids(device: str, folder: Path, network_of: NetworkOf) -> list[Port]:
    number, layer = int(folder.name), _read(folder / "link_layer")
    if layer == "InfiniBand":
        gid, lid = _read(folder / "gids" / "0"), int(_read(folder / "lid"), 16)
        return [Port(device, number, layer, lid, 0, gid, "", "", f"infiniband {gid[:19]}")]
    found, empty = [], 0
    for name in sorted(os.listdir(folder / "gids"), key=int):
        gid = _read(folder / "gids" / name)
        empty = empty + 1 if gid in ("", _NO_GID) else 0
        if empty == _LONGEST_GAP:
            break
        if empty or _read(folder / "gid_attrs" / "types" / name) != "RoCE v2":
            continue
        netdev = _read(folder / "gid_attrs" / "ndevs" / name)
        address = ipaddress.IPv6Address(gid)
        if address.ipv4_mapped is not None:
            rank, text, network = 0, str(address.ipv4_mapped), str(network_of(netdev, address.ipv4_mapped))
        elif address.is_link_local:
            # Every Ethernet has this prefix, so it tells no two apart: good for one host, or where it is forced.
            rank, text, network = 2, str(address), f"{address} alone"
        else:
            rank, text, network = 1, str(address), str(ipaddress.IPv6Network((address, 64), strict=False))
        found.append((rank, Port(device, number, layer, 0, int(name), gid, netdev, text, f"roce {network}")))
    return [port for _, port in sorted(found, key=lambda pair: pair[0])]


def _is_wanted(port: Port, wanted: str) -> bool:
    if not wanted:
        return True
    match = _WANTED.match(wanted)
    if match is None:
        raise TransportUnavailableError(f"{DEVICE_VARIABLE}={wanted} is not DEVICE[:PORT[:GID_INDEX]]")
    device, number, gid_index = match.groups()
    return (
        port.device == device
        and (number is None or port.number == int(number))
        and (gid_index is None or port.gid_index == int(gid_index))
    )


def _addresses(host: str) -> set[str]:
    try:
        return {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except OSError:
        return set()


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""  # an empty entry of the GID table cannot be read
