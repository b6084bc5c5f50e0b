"""The host file: one host a line, `name slots=N [device=D] [address=A]`, `#` begins a comment.

    node1  slots=32  device=mlx5_0
    node2  slots=32  device=mlx5_0  address=10.1.0.2

`slots` are cores for Spark; `device` is the RDMA device as PYSLASH_RDMA_DEVICE has it; `address` is where Spark listens
on that host, if its name is not to decide that.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path


class HostFileError(Exception):
    """A host file that cannot be read; names the line and what is wanted."""


@dataclass(frozen=True)
class Host:
    """One line of the file. `name` is what the launcher knows it by."""

    name: str
    slots: int
    device: str = ""
    address: str = ""

    @property
    def listens(self) -> str:
        """Name or address for Spark."""
        return self.address or self.name

    def __str__(self) -> str:
        return f"{self.name} ({self.slots} slots{', ' + self.device if self.device else ''})"


def read_hosts(path: Path) -> list[Host]:
    """The hosts of a file, in its order.

    Raises:
        HostFileError: there are none, or a line is not one.
    """
    hosts: list[Host] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            host = _host(words, f"{path}, line {number}")
            if any(host.name == other.name for other in hosts):
                raise HostFileError(f"{path}, line {number}: {host.name} is there twice; add its slots up in one line")
            hosts.append(host)
    if not hosts:
        raise HostFileError(f"{path} names no host; a line is: name slots=N [device=D] [address=A]")
    return hosts


def _host(words: list[str], where: str) -> Host:
    name, settings = words[0], dict(word.partition("=")[::2] for word in words[1:])
    # ssh would take a name with a dash in front for an option.
    if name.startswith("-") or "=" in name:
        raise HostFileError(f"{where}: {name!r} is no host name; a line is: name slots=N [device=D] [address=A]")
    if unknown := settings.keys() - {field.name for field in fields(Host)[1:]}:
        raise HostFileError(f"{where}: {', '.join(sorted(unknown))} is not known; there are slots, device, address")
    slots = settings.pop("slots", "")
    if not slots.isdigit() or int(slots) < 1:
        raise HostFileError(
            f"{where}: slots={slots or '(missing)'}: wanted is the number of cores for Spark, 1 or more"
        )
    return Host(name, int(slots), **settings)
