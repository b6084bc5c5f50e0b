"""Peers, links and packets lost in the middle of a READ: the right bytes or a typed error, in time, never others."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pyslash.errors import SlashError
from pyslash.protocol.token import query_token
from pyslash.rdma.port import Port
from pyslash.transport.verbs import VerbsTransport
from tests.agent.blocks import QUERY
from tests.rdma.conftest import SIZES
from tests.rdma.peer import HOSTS, ON, Peer, peer
from tests.rdma.raw_block import HEADER_BYTES, body

pytestmark = pytest.mark.rdma
DEADLINE_SECONDS = 15.0
# The last call, which tells the agent of the end, comes on top, and emulated hosts are slow.
GRACE_SECONDS = 10.0
two_hosts = pytest.mark.skipif(HOSTS < 2, reason="needs the lab's second host: make lab")


class Reading(threading.Thread):
    """READs a block over and over until it is told to stop or fails."""

    def __init__(self, transport: VerbsTransport, remote: Peer, index: int) -> None:
        super().__init__(daemon=True)
        self._transport, self._remote, self._index = transport, remote, index
        self.started_reading, self.enough = threading.Event(), threading.Event()
        self.wrong = self.right = 0
        self.error: Exception | None = None
        self.longest = 0.0

    def run(self) -> None:
        """Counts."""
        offset, size = self._remote.blocks[self._index]
        expected = body(self._index, size)
        while not self.enough.is_set() and self.error is None:
            started = time.monotonic()
            self.started_reading.set()
            try:
                (buffer,) = self._transport.read(self._remote.descriptor, offset, [(HEADER_BYTES, size)])
                if buffer.to_pybytes() == expected:
                    self.right += 1
                else:
                    self.wrong += 1
            except SlashError as error:
                self.error = error
            self.longest = max(self.longest, time.monotonic() - started)


@pytest.fixture
def impatient(shared_secret: bytes) -> Iterator[VerbsTransport]:
    """A reader with a deadline."""
    made = VerbsTransport(QUERY, query_token(shared_secret, QUERY), timeout_seconds=DEADLINE_SECONDS)
    yield made
    made.close()


def test_a_peer_that_is_killed_in_the_middle(port: Port, impatient: VerbsTransport, shared_secret: bytes) -> None:
    with peer(shared_secret, 24 << 20, [16 << 20]) as doomed:
        assert impatient.unreachable(doomed.descriptor) is None
        reading = Reading(impatient, doomed, 0)
        reading.start()
        assert reading.started_reading.wait(30)
        doomed.kill()
        reading.join(2 * (DEADLINE_SECONDS + GRACE_SECONDS))
    assert not reading.is_alive()
    assert reading.wrong == 0
    assert isinstance(reading.error, SlashError)
    assert reading.longest < DEADLINE_SECONDS + GRACE_SECONDS


@contextmanager
def link_down() -> Iterator[None]:
    subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)
    try:
        yield
    finally:
        subprocess.run(["ip", "link", "set", "eth0", "up"], check=True)


@two_hosts
def test_a_link_that_goes_down_in_the_middle(remote: Peer, impatient: VerbsTransport) -> None:
    index = SIZES.index(8 * (1 << 20) + 1)
    assert impatient.unreachable(remote.descriptor) is None
    reading = Reading(impatient, remote, index)
    reading.start()
    assert reading.started_reading.wait(30)
    with link_down():
        reading.join(2 * (DEADLINE_SECONDS + GRACE_SECONDS))
    assert not reading.is_alive()
    assert reading.wrong == 0
    assert isinstance(reading.error, SlashError)
    assert reading.longest < DEADLINE_SECONDS + GRACE_SECONDS
    offset, size = remote.blocks[0]
    deadline = time.monotonic() + 60
    while (obstacle := impatient.unreachable(remote.descriptor)) is not None:
        assert time.monotonic() < deadline, obstacle
    (buffer,) = impatient.read(remote.descriptor, offset, [(HEADER_BYTES, size)])
    assert buffer.to_pybytes() == body(0, size)


@contextmanager
def losing(percent: int) -> Iterator[None]:
    """Both directions: what each host sends."""
    change = lambda verb, *more: ["tc", "qdisc", verb, "dev", "eth0", "root", *more]  # noqa: E731
    loss = ("netem", "loss", f"{percent}%")
    subprocess.run([str(ON), "host2", *change("add", *loss)], check=True)
    subprocess.run(change("add", *loss), check=True)
    try:
        yield
    finally:
        subprocess.run(change("del"), check=True)
        subprocess.run([str(ON), "host2", *change("del")], check=True)


@two_hosts
def test_one_packet_in_a_hundred_is_lost(remote: Peer, impatient: VerbsTransport) -> None:
    assert impatient.unreachable(remote.descriptor) is None
    outcomes = {"right": 0, "wrong": 0, "typed error": 0}
    longest = 0.0
    with losing(1):
        for index in (0, 2, 3, 4, 3, 2, 0, 4):
            offset, size = remote.blocks[index]
            started = time.monotonic()
            try:
                (buffer,) = impatient.read(remote.descriptor, offset, [(HEADER_BYTES, size)])
                outcomes["right" if buffer.to_pybytes() == body(index, size) else "wrong"] += 1
            except SlashError:
                outcomes["typed error"] += 1
            longest = max(longest, time.monotonic() - started)
    print(f"1 % loss: {outcomes}, longest READ {longest:.1f} s")
    assert outcomes["wrong"] == 0
    assert outcomes["right"] > 0
    assert longest < DEADLINE_SECONDS + GRACE_SECONDS


@two_hosts
def test_the_other_host_is_another(remote: Peer) -> None:
    assert remote.descriptor.host != os.environ["PYSLASH_LAB_ADDRESS"]
