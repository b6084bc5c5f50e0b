"""The pipeline of READs that is measured goes over the transport's own connection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from eval import rdma
from pyslash.rdma.transfer import Piece
from pyslash.transport.verbs import VerbsTransport
from tests.agent.blocks import QUERY


def test_the_pipeline_is_measured_on_the_transports_own_connection() -> None:
    moved: list[Any] = []
    connection = SimpleNamespace(address=1000, rkey=2, mover=SimpleNamespace(move=lambda *asked: moved.append(asked)))
    lease = SimpleNamespace(slab=SimpleNamespace(address=1 << 20, lkey=1))
    known: Any = SimpleNamespace(
        _hub=SimpleNamespace(landing=SimpleNamespace(acquire=lambda size: lease)),
        _connection=connection,
        _with_connection=lambda move, deadline: move(connection),
    )
    transport = VerbsTransport(QUERY, bytes(33))
    remote: Any = SimpleNamespace(descriptor="a peer", blocks=[(64, 4096)])
    transport._peers.of(remote.descriptor, lambda: known)
    rdma.pipeline(transport, remote, 128, 2)()
    assert moved[0][1] == [Piece(1 << 20, 1064, 128), Piece((1 << 20) + 128, 1192, 128)]
