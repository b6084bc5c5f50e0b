"""The source's side of replication: an agent writes its blocks of an epoch into a standby's arena, before the commit.

It uses the transport that a merge would read by: RDMA WRITE if both have verbs, one copy inside a host, or a stream.
The driver only says what goes where; no block passes through it.
"""

from __future__ import annotations

import threading
from typing import Any

from pyslash.agent.store.adopt import relocated
from pyslash.agent.store.figures import Figures
from pyslash.agent.store.lent import Lent
from pyslash.agent.store.state import AgentState
from pyslash.errors import InvalidRequestError
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Replicate, Reserve, Seal
from pyslash.protocol.token import Right, query_token
from pyslash.state.files.block_head import head_crc
from pyslash.transport import choose_transport, close_transports

_ROOM_SECONDS = 30.0
"""To reserve, no byte moves: a standby that hangs is found long before a large share is given up."""


class Replicator:
    """Keeps one connection a query, to its standby."""

    def __init__(self, state: AgentState, secret: bytes) -> None:
        self._lent, self._figures = Lent(state), Figures(state)
        self._secret = secret
        self._source = state.incarnation.hex()
        self._lock = threading.Lock()
        self._clients: dict[bytes, AgentClient] = {}

    def replicate(self, query: bytes, request: Replicate) -> dict[str, Any]:
        """Writes the blocks, and returns when the standby has checked them.

        Raises:
            InvalidRequestError: the standby's descriptor is none, or an offset is no published block of the epoch.
            ArenaFullError: the standby has no room.
            AgentError: it is gone, or refuses; a subclass says which.
        """
        try:
            standby = AgentDescriptor.from_json(request.standby)
        except ValueError as error:
            raise InvalidRequestError(f"replicate to what is no agent: {error}") from None
        client = self._client(query, standby)
        token = query_token(self._secret, query, Right.REPLICATE)
        epoch, plan, run = request.epoch, request.plan, request.run
        with self._lent.blocks_of_epoch(query, request, request.whole) as blocks:
            room = [[block.offset, block.length, head_crc(block.head)] for block in blocks]
            taken_over = self._figures.taken_over(query, epoch) if request.settled else []
            asked = Reserve(epoch, self._source, room, plan, run, request.whole, request.settled, taken_over)
            places = client.act("reserve", asked, min(_ROOM_SECONDS, request.timeout_seconds))["offsets"]
            if blocks:
                transport = choose_transport(standby, request.transport, query, token, request.timeout_seconds)
                for block, offset in zip(blocks, places, strict=True):
                    head = relocated(block.head, query, standby.incarnation_bytes, offset)
                    transport.write(standby, offset, head)
                    body = self._lent.view(block, len(head), block.length - len(head))
                    transport.write(standby, offset + len(head), body)
            client.act("seal", Seal(epoch, self._source, plan, run), request.timeout_seconds)
        return {"bytes": sum(block.length for block in blocks)}

    def drop(self, query: bytes) -> None:
        """Ends the connections of a query that has ended: to its standby, and those by which it was gathered."""
        with self._lock:
            client = self._clients.pop(query, None)
        if client is not None:
            client.close()
        close_transports(query)

    def _client(self, query: bytes, standby: AgentDescriptor) -> AgentClient:
        with self._lock:
            known = self._clients.get(query)
            if known is None or known.descriptor != standby:
                # The one before it goes when its last call has ended.
                token = query_token(self._secret, query, Right.REPLICATE)
                known = AgentClient(standby, query, token, secret=self._secret)
                self._clients[query] = known
            return known
