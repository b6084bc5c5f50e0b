"""Blocks of other agents in a landing: the bytes that were asked for, nothing out of bounds, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from pyslash import _native
from pyslash.errors import AgentUnavailableError, ForbiddenError
from pyslash.protocol.client import AgentClient
from pyslash.protocol.codec import body
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Gather, Land
from pyslash.protocol.token import Right, query_token
from pyslash.protocol.wire import Channel, Kind
from tests.agent.blocks import OTHER_QUERY, PLAN, QUERY, attach, write
from tests.agent.conftest import MIB, Pair, wait_until_gone
from tests.agent.raw import opened, soon


def called(channel: Channel, name: str, request: Gather | Land) -> dict[str, Any]:
    """The answer; a refusal as an AssertionError with the agent's words."""
    channel.send(Kind.CALL, f"{name} \n".encode() + body(request), soon())
    kind, answer = channel.receive(soon())
    assert kind is Kind.RESULT, answer.decode()
    found: dict[str, Any] = json.loads(answer)
    return found


class Landing:
    """What a task has of one: its connection, and the memory, mapped."""

    def __init__(self, agent: AgentDescriptor, channel: Channel, size: int, version: str = "") -> None:
        self._channel = channel
        made = called(channel, "gather", Gather(size, 5, version))
        self.start = made["start"]
        handle = os.open(f"/proc/{agent.pid}/fd/{made['fd']}", os.O_RDWR)
        try:
            self.arena = _native.Arena.attach(handle, agent.incarnation_bytes)
        finally:
            os.close(handle)

    def land(self, peer: AgentDescriptor, blocks: list[list[Any]], transport: str = "tcp") -> dict[str, int]:
        """The bytes that came by each transport."""
        return self.land_of([(peer, blocks)], transport)

    def land_of(self, peers: list[tuple[AgentDescriptor, list[list[Any]]]], transport: str = "tcp") -> dict[str, int]:
        """The same, of several agents at once."""
        asked = Land(transport, [[peer.to_json(), blocks] for peer, blocks in peers])
        brought: dict[str, int] = called(self._channel, "land", asked)["brought"]
        return brought

    def bytes(self, place: int, length: int) -> bytes:
        """What lies at a place."""
        return bytes(self.arena.view(self.start + place, length))


@contextmanager
def gathering(agent: AgentDescriptor, secret: bytes, size: int, query: bytes = QUERY) -> Iterator[Landing]:
    """A landing until the end of the block, when its connection ends as that of a task that dies."""
    with opened(agent, query_token(secret, query, Right.READ), "unix", query) as channel:
        yield Landing(agent, channel, size)


@pytest.fixture
def peer(standby: Pair) -> AgentDescriptor:
    """An agent that holds blocks."""
    return standby[0]


def committed(peer: AgentDescriptor, secret: bytes, epoch: int = 0) -> Any:
    """The head of a block of 100 groups."""
    head = write(peer, epoch, [0])
    with AgentClient(peer, QUERY, query_token(secret, QUERY)) as client:
        client.commit(epoch, [head.arena_offset], PLAN)
    return head


def open_landings(agent: AgentDescriptor) -> int:
    """Of its files, those that are landings."""
    found = set()
    for number in os.listdir(f"/proc/{agent.pid}/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            if "pyslash-landing" in os.readlink(f"/proc/{agent.pid}/fd/{number}"):
                found.add(os.stat(f"/proc/{agent.pid}/fd/{number}").st_ino)
    return len(found)


@pytest.mark.parametrize("transport", ["tcp", "shm", "auto"])
def test_ranges_lie_where_they_lie_in_their_block(
    agent: AgentDescriptor, peer: AgentDescriptor, secret: bytes, transport: str
) -> None:
    head = committed(peer, secret)
    whole = bytes(attach(peer).view(head.arena_offset, head.length))
    cut = head.length // 2
    with gathering(agent, secret, 3 * MIB) as landing:
        blocks = [[head.arena_offset, 0, [[0, 64], [cut, head.length - cut]]], [head.arena_offset, MIB, [[64, 128]]]]
        answer = landing.land(peer, blocks, transport)
        assert answer == {"tcp" if transport == "tcp" else "shm": 64 + head.length - cut + 128}
        assert landing.bytes(0, head.length) == whole[:64] + bytes(cut - 64) + whole[cut:]
        assert landing.bytes(MIB, 192) == bytes(64) + whole[64:192]


def test_a_peer_is_asked_once_for_all_ranges_of_all_blocks(
    agent: AgentDescriptor, client: AgentClient, start: Callable[..., Pair], secret: bytes
) -> None:
    peers = [start()[0] for _ in range(2)]
    wanted: list[tuple[AgentDescriptor, list[list[Any]]]] = []
    expected: dict[int, bytes] = {}
    for peer in peers:
        heads = [write(peer, 0, [0], attempt=attempt) for attempt in range(5)]
        with AgentClient(peer, QUERY, query_token(secret, QUERY)) as driver:
            driver.commit(0, [head.arena_offset for head in heads], PLAN)
        blocks: list[list[Any]] = []
        for head in heads:
            place = len(expected) * (1 << 14)
            expected[place] = bytes(attach(peer).view(head.arena_offset, head.length))
            blocks.append([head.arena_offset, place, [[0, 64], [64, head.length - 64]]])
        wanted.append((peer, blocks))
    with gathering(agent, secret, MIB) as landing:
        brought = landing.land_of(wanted)
        assert brought == {"tcp": sum(map(len, expected.values()))}
        assert {place: landing.bytes(place, len(whole)) for place, whole in expected.items()} == expected
    assert client.stats()["reads_of_peers"] == len(peers)
    for peer in peers:
        with AgentClient(peer, QUERY, query_token(secret, QUERY)) as driver:
            assert driver.stats()["counters"]["reads served"] == 1


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        ([[1 << 21, 0, [[0, 2 * MIB + 64]]]], "leaves the landing"),
        ([[1 << 21, 2 * MIB, [[0, 64]]]], "leaves the landing"),
        ([[1 << 21, 0, [[0, 64]]]], "no block to read lies at 2097152"),
        ([[-1, 0, [[0, 64]]]], "field peers"),
        ([[0, 0, [[0, 0]]]], "field peers"),
    ],
)
def test_what_is_out_of_bounds_is_refused(
    agent: AgentDescriptor, peer: AgentDescriptor, secret: bytes, blocks: list[list[Any]], reason: str
) -> None:
    committed(peer, secret)
    with gathering(agent, secret, 2 * MIB) as landing, pytest.raises(AssertionError, match=reason):
        landing.land(peer, blocks)


def test_a_query_gathers_its_own_blocks_alone(agent: AgentDescriptor, peer: AgentDescriptor, secret: bytes) -> None:
    head = committed(peer, secret)
    with gathering(agent, secret, MIB, OTHER_QUERY) as landing, pytest.raises(AssertionError, match="no block to read"):
        landing.land(peer, [[head.arena_offset, 0, [[0, 64]]]])


def test_only_a_process_of_the_host_gathers(agent: AgentDescriptor, secret: bytes) -> None:
    token = query_token(secret, QUERY, Right.READ)
    with opened(agent, token, "tcp") as channel, pytest.raises(AssertionError, match=ForbiddenError.__name__):
        called(channel, "gather", Gather(MIB, 5, ""))


def test_a_peer_that_is_gone_is_a_typed_error_and_the_connection_goes_on(
    agent: AgentDescriptor, peer: AgentDescriptor, secret: bytes
) -> None:
    head = committed(peer, secret)
    os.kill(peer.pid, signal.SIGKILL)
    assert wait_until_gone(peer.pid)
    token = query_token(secret, QUERY, Right.READ)
    with opened(agent, token, "unix") as channel:
        landing = Landing(agent, channel, MIB)
        with pytest.raises(AssertionError, match=AgentUnavailableError.__name__):
            landing.land(peer, [[head.arena_offset, 0, [[0, 64]]]])
        assert Landing(agent, channel, MIB).bytes(0, 64) == bytes(64)


def test_a_landing_goes_with_its_connection(agent: AgentDescriptor, peer: AgentDescriptor, secret: bytes) -> None:
    head = committed(peer, secret)
    with gathering(agent, secret, MIB) as landing:
        landing.land(peer, [[head.arena_offset, 0, [[0, head.length]]]])
        assert open_landings(agent) == 1
        kept = landing.arena.view(landing.start, 64)
    deadline = time.monotonic() + 10
    while open_landings(agent):
        assert time.monotonic() < deadline
    assert bytes(kept) == bytes(attach(peer).view(head.arena_offset, 64))  # who has mapped it still reads it
