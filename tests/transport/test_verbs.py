"""What the verbs transport asks of a device, without one: pieces of bounded size, and the peer's network."""

from __future__ import annotations

import ctypes
import os
import time
from types import SimpleNamespace
from typing import Any

import pytest

from pyslash.errors import TransportUnavailableError
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.token import query_token
from pyslash.rdma.landing import LandingPool
from pyslash.rdma.port import Port
from pyslash.transport import verbs
from pyslash.transport.base import Placed
from pyslash.transport.verbs import VerbsTransport
from tests.agent.blocks import QUERY


def test_a_large_replica_takes_little_registered_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "_LIST_BYTES", 1 << 20)
    registered, calls, target = [], [], bytearray(6 << 20)

    def register(_: object, __: int, length: int, *___: str) -> Any:
        registered.append(length)
        return SimpleNamespace(lkey=1, close=lambda: None)

    def move(_: str, pieces: Any, *__: object) -> None:
        for local, remote, length in pieces:
            target[remote : remote + length] = ctypes.string_at(local, length)

    def act(name: str, *_: object) -> dict[str, int]:
        calls.append(name)
        return {"rkey": 5}

    hub: Any = SimpleNamespace(landing=LandingPool(SimpleNamespace(register=register), None))  # type: ignore[arg-type]
    client: Any = SimpleNamespace(act=act)
    agent: Any = "a peer"
    peer = verbs._Peer(agent, hub, client, QUERY)
    connection: Any = SimpleNamespace(renew_at=float("inf"), address=0, mover=SimpleNamespace(move=move))
    peer._connection = connection
    data = os.urandom((5 << 20) + 3)
    peer.write(64, data, time.monotonic() + 20)  # type: ignore[arg-type]
    assert bytes(target[64 : 64 + len(data)]) == data
    assert max(registered) == 1 << 20
    assert calls == ["expose", "conceal"]


def test_a_long_range_is_read_in_several_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "_LIST_BYTES", 100)
    memory: Any = None
    blocks = [Placed(64, [(10, 250), (300, 20)], 0, memory)]  # type: ignore[arg-type]
    lists = verbs._lists(blocks)
    assert [[one.ranges for one in some] for some in lists] == [[[(10, 100)]], [[(110, 100)]], [[(210, 50), (300, 20)]]]


def test_the_peers_network_is_tried_before_any_other_port(agent: AgentDescriptor, secret: bytes) -> None:
    asked: list[str | None] = []

    def find_port(fabric: str | None, host: str | None) -> Port:
        asked.append(fabric)
        raise TransportUnavailableError(f"no port on {fabric}")

    peer = AgentDescriptor(**{**agent.to_record(), "boot_id": "another", "fabric": "roce 10.2.0.0/24"})
    transport = VerbsTransport(QUERY, query_token(secret, QUERY), 5, find_port)
    assert transport.unreachable(peer, any_fabric=True) == "no port on None"
    with pytest.raises(TransportUnavailableError):
        transport.read(peer, 0, [(0, 64)])  # type: ignore[arg-type]
    assert asked == ["roce 10.2.0.0/24", None] * 2
