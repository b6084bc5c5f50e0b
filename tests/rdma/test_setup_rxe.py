"""scripts/setup_rxe.sh with a link and an interface of its own, beside the device that the other tests use."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.rdma
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "setup_rxe.sh"
LINK = "rxetest"
NETDEV = "rxetest0"


def script(*arguments: str) -> tuple[int, str]:
    """Exit status, and all that was said."""
    command = [str(SCRIPT), *arguments]
    done = subprocess.run(command, env={**os.environ, "RXE_LINK": LINK}, capture_output=True, text=True, timeout=900)
    return done.returncode, done.stdout + done.stderr


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


@pytest.fixture
def netdev() -> Iterator[str]:
    """An interface that leads nowhere."""
    if os.geteuid() != 0 or not Path("/sys/module/rdma_rxe").is_dir():
        pytest.skip("needs root and a kernel with rdma_rxe; `make lab` runs this in a QEMU host that has both")
    ip("link", "add", NETDEV, "type", "dummy")
    try:
        ip("address", "add", "10.78.0.1/24", "dev", NETDEV)
        ip("link", "set", NETDEV, "up")
        yield NETDEV
    finally:
        script("down")
        ip("link", "delete", NETDEV)


def test_up_status_and_down_can_be_repeated(netdev: str) -> None:
    assert script("status")[0] == 1
    for already in (False, True):
        status, said = script("up", netdev)
        assert status == 0, said
        assert (f"{LINK} is on {netdev} already" in said) is already
        assert f"rxe: {LINK}/1 (roce 10.78.0.0/24, {netdev} 10.78.0.1): 64 B in" in said
    for _ in range(2):
        status, said = script("status")
        assert status == 0
        assert f"{LINK}/1 state ACTIVE" in said
    status, said = script("up", "lo")
    assert (status, said) == (1, f"rxe: {LINK} is on {netdev}, not on lo; first: setup_rxe.sh down\n")
    assert script("down") == (0, "")
    assert script("down") == (0, f"rxe: there is no {LINK}\n")
    assert script("status")[0] == 1
    assert not Path(f"/sys/class/infiniband/{LINK}").exists()


def test_an_interface_that_is_not_there_is_named(netdev: str) -> None:
    assert script("up", "nothere0") == (1, "rxe: there is no interface nothere0\n")
    assert script("status")[0] == 1
