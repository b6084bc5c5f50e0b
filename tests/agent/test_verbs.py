"""The agent's side of verbs without a device: what is registered when, and when the right to write ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyslash import _native
from pyslash.agent import verbs
from pyslash.agent.compaction.compactor import Compactor
from pyslash.agent.server import AgentServer
from pyslash.agent.store.replica_calls import ReplicaCalls
from pyslash.agent.store.state import AgentState
from pyslash.errors import TransportUnavailableError
from pyslash.protocol.messages import Conceal, Connect, Discard, Expose, Reserve
from pyslash.units import Epoch, Run
from tests.agent.blocks import PLAN, QUERY

GID = "fe80:0000:0000:0000:5054:00ff:fe00:0001"


@pytest.fixture
def fd() -> Iterator[int]:
    made = os.memfd_create("arena")
    yield made
    os.close(made)


def test_an_arenas_pages_are_there_before_it_is_registered(fd: int) -> None:
    """Registering holds up all threads of the agent."""
    arena = _native.Arena.create(fd, 64 << 20, bytes(16))
    present: list[int] = []

    def register(*_: object) -> None:
        present.append(os.fstat(fd).st_blocks * 512)
        raise TransportUnavailableError("as far as the test goes")

    port: Any = object()
    endpoint = verbs.VerbsEndpoint(arena, port)
    device: Any = SimpleNamespace(protection_domain=object, completion_queue=object, register=register)
    endpoint._device = device
    with pytest.raises(TransportUnavailableError):
        endpoint.connect(QUERY, Connect(1, 1, GID, 0, 3, 1, 1), False)
    if not present:
        pytest.skip("no pyverbs here, so nothing is registered")
    assert present[0] >= 64 << 20


def test_room_that_is_given_up_while_it_is_exposed_is_closed_again(
    fd: int, secret: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena = _native.Arena.create(fd, 16 << 20, bytes(16))
    endpoint = verbs.VerbsEndpoint(arena, None)
    keys: set[int] = set()

    def register(*_: object) -> Any:
        keys.add(7)
        return SimpleNamespace(rkey=7, close=lambda: keys.discard(7))

    nothing: Any = None
    device: Any = SimpleNamespace(register=register)
    endpoint._device, endpoint._domains[QUERY] = device, verbs._Domain(nothing, nothing, nothing)
    state = AgentState(arena, fd, bytes(16), lambda query, offset: endpoint.conceal(query, Conceal(offset)))
    server = AgentServer(secret, state, Compactor(state), endpoint, tmp_path / "log")
    order = Reserve(Epoch(0), "ab" * 16, [[64, 4096, 1]], PLAN, Run(1), True)
    (offset,) = ReplicaCalls(state).reserve(QUERY, order)["offsets"]
    giving_up = threading.Thread(target=state.discard, args=(QUERY, Discard(Epoch(1), Run(1))))
    look = verbs.reserved_block

    def looked(*asked: Any) -> Any:
        found = look(*asked)
        giving_up.start()
        giving_up.join(0.5)  # is done, or waits for what is being exposed
        return found

    monkeypatch.setattr(verbs, "reserved_block", looked)
    caller: Any = SimpleNamespace(query=QUERY)
    server._expose(caller, Expose(offset, 4096))
    giving_up.join(20)
    assert not keys
