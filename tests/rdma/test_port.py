"""Ports and GIDs out of a folder that looks like /sys/class/infiniband."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from pyslash.errors import TransportUnavailableError
from pyslash.rdma.port import Port, choose_port, ports


def network_of(netdev: str, address: ipaddress.IPv4Address) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Network((address, 24), strict=False)


def ethernet(sysfs: Path, device: str, gids: dict[int, tuple[str, str]], state: str = "4: ACTIVE") -> None:
    """A port with GIDs {index: (GID, type)} on an interface of the device's name."""
    port = sysfs / device / "ports" / "1"
    for folder in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        (port / folder).mkdir(parents=True)
    (port / "state").write_text(f"{state}\n")
    (port / "link_layer").write_text("Ethernet\n")
    (port / "lid").write_text("0x0\n")
    for index, (gid, kind) in gids.items():
        (port / "gids" / str(index)).write_text(f"{gid}\n")
        (port / "gid_attrs/types" / str(index)).write_text(f"{kind}\n")
        (port / "gid_attrs/ndevs" / str(index)).write_text(f"if_{device}\n")


LINK_LOCAL = "fe80:0000:0000:0000:5054:00ff:fe00:0001"
ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"


def mapped(address: str) -> str:
    return ipaddress.IPv6Address(f"::ffff:{address}").exploded


def test_the_gid_of_an_address_comes_before_the_link_s_own(tmp_path: Path) -> None:
    gids = {0: (LINK_LOCAL, "RoCE v2"), 1: (mapped("10.77.0.1"), "IB/RoCE v1"), 3: (mapped("10.77.0.1"), "RoCE v2")}
    ethernet(tmp_path, "rxe0", {**gids, 2: (ZERO, "")})
    usable, unusable = ports(tmp_path, network_of)
    assert unusable == []
    assert [(port.gid_index, port.fabric) for port in usable] == [
        (3, "roce 10.77.0.0/24"),
        (0, "roce fe80::5054:ff:fe00:1 alone"),
    ]
    assert usable[0].address == "10.77.0.1"
    assert usable[0].netdev == "if_rxe0"


def test_infiniband_goes_by_lid_and_subnet_prefix(tmp_path: Path) -> None:
    port = tmp_path / "mlx5_0" / "ports" / "1"
    (port / "gids").mkdir(parents=True)
    for name, text in [("state", "4: ACTIVE"), ("link_layer", "InfiniBand"), ("lid", "0x1f"), ("gids/0", LINK_LOCAL)]:
        (port / name).write_text(f"{text}\n")
    ((found,), _) = ports(tmp_path, network_of)
    assert (found.lid, found.gid_index, found.fabric) == (31, 0, "infiniband fe80:0000:0000:0000")


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    ethernet(tmp_path, "down0", {0: (LINK_LOCAL, "RoCE v2")}, state="1: DOWN")
    ethernet(tmp_path, "old0", {0: (LINK_LOCAL, "IB/RoCE v1")})
    found = ports(tmp_path, network_of)
    assert found[0] == []
    with pytest.raises(TransportUnavailableError, match=r"down0/1 is DOWN; old0/1 has no RoCE v2 GID"):
        choose_port(found=found)


def test_without_a_device_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(TransportUnavailableError, match="this host has no RDMA device"):
        choose_port(found=ports(tmp_path / "none", network_of))


@pytest.fixture
def two(tmp_path: Path) -> tuple[list[Port], list[str]]:
    """Two devices on two subnets."""
    ethernet(tmp_path, "a0", {1: (mapped("10.1.0.1"), "RoCE v2")})
    ethernet(tmp_path, "b0", {1: (mapped("10.2.0.1"), "RoCE v2"), 5: (mapped("10.2.0.9"), "RoCE v2")})
    return ports(tmp_path, network_of)


@pytest.mark.parametrize(
    ("fabric", "host", "wanted", "address"),
    [
        (None, None, "", "10.1.0.1"),
        (None, "10.2.0.1", "", "10.2.0.1"),
        (None, "10.2.0.9", "", "10.2.0.9"),
        (None, "10.9.9.9", "", "10.1.0.1"),
        ("roce 10.2.0.0/24", None, "", "10.2.0.1"),
        ("roce 10.2.0.0/24", "10.1.0.1", "", "10.2.0.1"),
        (None, "10.1.0.1", "b0", "10.2.0.1"),
        (None, None, "b0:1:5", "10.2.0.9"),
    ],
)
def test_choice(
    two: tuple[list[Port], list[str]], fabric: str | None, host: str | None, wanted: str, address: str
) -> None:
    assert choose_port(fabric, host, wanted, two).address == address


@pytest.mark.parametrize(
    ("fabric", "wanted", "reason"),
    [
        ("roce 10.3.0.0/24", "", "no port of this host is on the peer's fabric roce 10.3.0.0/24"),
        ("roce 10.1.0.0/24", "b0", "no port of this host is on the peer's fabric"),
        (None, "c0", "PYSLASH_RDMA_DEVICE=c0, but the usable ports are"),
        (None, "b0:2", "usable ports"),
        (None, "b0:x", r"is not DEVICE\[:PORT\[:GID_INDEX\]\]"),
    ],
)
def test_no_choice(two: tuple[list[Port], list[str]], fabric: str | None, wanted: str, reason: str) -> None:
    with pytest.raises(TransportUnavailableError, match=reason):
        choose_port(fabric, None, wanted, two)
