"""The standby's side of replication: it reserves room for another agent's blocks, commits them, and can promote them.

A block is written into room that this agent has reserved, with a head that already names this arena. So a replica is a
block like any other, is compacted and released like any other, and its promotion moves no byte.
Methods are called with the lock of `AgentState` held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyslash._native import Arena, Head, Plan, crc32c
from pyslash.agent.store.block_set import Holding, LiveBlock
from pyslash.agent.store.query_state import PendingReplica, QueryState, Replica
from pyslash.errors import CorruptBlockError, InvalidRequestError
from pyslash.protocol.messages import Promote, Reserve
from pyslash.state.files.block_file import segments_of
from pyslash.state.files.block_head import copied_head
from pyslash.units import BEYOND_EPOCHS, NO_EPOCH, ArenaOffset, Epoch

Conceal = Callable[[bytes, ArenaOffset], object]


class Standby:
    """Over one arena. `conceal(query, offset)` ends any peer's right to write there."""

    def __init__(self, arena: Arena, holding: Holding, conceal: Conceal) -> None:
        self._arena = arena
        self._holding = holding
        self._conceal = conceal

    def reserve(self, query: bytes, state: QueryState, request: Reserve) -> list[ArenaOffset]:
        """Reserves room for the blocks of an epoch, in their order. Blocks that this source was writing are void.

        Raises:
            InvalidRequestError: the call comes late: blocks of this epoch are here already, and have been checked.
            ArenaFullError: no room for all of them; nothing is reserved then.
        """
        if self._is_late(state, request):
            raise InvalidRequestError(
                f"the blocks of epoch {request.epoch} of agent {request.source[:8]} are here already"
            )
        self.abandon(query, state, request.source)
        heads = {ArenaOffset(offset): head for offset, _, head in request.blocks}
        incoming = PendingReplica(
            request.epoch, request.whole, {}, heads, request.settled, frozenset(request.taken_over)
        )
        state.incoming[request.source] = incoming
        try:
            for offset, length, _ in request.blocks:
                incoming.places[ArenaOffset(offset)] = (self._arena.allocate(length, query, BEYOND_EPOCHS), length)
        except BaseException:
            self.abandon(query, state, request.source)
            raise
        return [here for here, _ in incoming.places.values()]

    @staticmethod
    def _is_late(state: QueryState, request: Reserve) -> bool:
        here = state.replica_epochs().get(request.source, NO_EPOCH)
        if not request.settled:
            return here >= request.epoch
        replica, incoming = state.replicas.get(request.source), state.incoming.get(request.source)
        if here > request.epoch or (incoming is not None and incoming.epoch > request.epoch):
            return True
        # Its source may have taken a share over since.
        return replica is not None and (replica.epoch, replica.taken_over) == (
            request.epoch,
            frozenset(request.taken_over),
        )

    def written(self, query: bytes, state: QueryState, source: str, epoch: Epoch) -> PendingReplica:
        """The blocks of an epoch that are being written; no peer can write to them any more.

        Raises:
            InvalidRequestError: nothing is.
        """
        incoming = state.incoming.get(source)
        if incoming is None or incoming.epoch != epoch:
            raise InvalidRequestError(f"nothing of epoch {epoch} has been reserved for agent {source[:8]}")
        if incoming.sealed is None:
            for offset, _ in incoming.places.values():
                self._conceal(query, offset)
        return incoming

    def publish(
        self, query: bytes, state: QueryState, source: str, incoming: PendingReplica, blocks: list[LiveBlock]
    ) -> None:
        """The blocks are complete; those of an epoch that their agent has committed are the replica from here on.

        Raises:
            InvalidRequestError: they have been abandoned meanwhile.
        """
        if state.incoming.get(source) is not incoming:
            raise InvalidRequestError(f"blocks of agent {source[:8]} were abandoned while they were checked")
        if incoming.sealed is None:
            for block in blocks:
                self._conceal(query, block.offset)  # a source that writes once more has asked for it again
                self._arena.publish(block.offset)
            incoming.sealed = blocks
        if incoming.settled:
            del state.incoming[source]
            if (replica := state.replicas.get(source)) is not None:
                replica.forget(self._holding)
            self._holding.commit(query, [block.offset for block in blocks])
            state.replicas[source] = Replica(epoch=incoming.epoch, taken_over=incoming.taken_over)
            state.replicas[source].add(blocks)

    def abandon(self, query: bytes, state: QueryState, source: str) -> None:
        """Frees the blocks that a source is still writing."""
        incoming = state.incoming.pop(source, None)
        if incoming is not None:
            for offset, _ in incoming.places.values():
                self._conceal(query, offset)
            self._holding.free_when_unpinned(offset for offset, _ in incoming.places.values())

    def abandon_all(self, query: bytes, state: QueryState, but_of: Epoch | None = None) -> None:
        """Frees the blocks that are being written, unless they are of this epoch."""
        for source in [source for source, incoming in state.incoming.items() if incoming.epoch != but_of]:
            self.abandon(query, state, source)

    def forget_older(self, query: bytes, state: QueryState, epoch: Epoch) -> None:
        """Replicas that have not followed to an epoch go: their agents have other standbys."""
        for source in [source for source, replica in state.replicas.items() if replica.epoch < epoch]:
            self.abandon(query, state, source)
            state.replicas.pop(source).forget(self._holding)

    def check_commit(self, state: QueryState, source: str, epoch: Epoch, blocks: list[list[int]]) -> None:
        """Passes if the replica is at the epoch, or its blocks of the epoch, the very ones, are sealed.

        Raises:
            InvalidRequestError: neither; nothing of the commit has happened then.
        """
        replica, incoming = state.replicas.get(source), state.incoming.get(source)
        at = NO_EPOCH if replica is None else replica.epoch
        if replica is not None and at == epoch:
            return
        if incoming is None:
            complete = replica is not None and at == epoch - 1 and not blocks
        else:
            sealed = incoming.epoch == epoch and incoming.sealed is not None
            same = all(incoming.heads.get(ArenaOffset(offset)) == head for offset, head in blocks)
            complete = sealed and same and (incoming.whole or at == epoch - 1)
        if not complete:
            raise InvalidRequestError(f"no replica of agent {source[:8]} is here that has all blocks of epoch {epoch}")

    def commit(self, query: bytes, state: QueryState, source: str, epoch: Epoch) -> Replica:
        """The sealed blocks, if any, join the replica. Idempotent."""
        replica = state.replicas.setdefault(source, Replica())
        if replica.epoch == epoch:
            return replica
        replica.swap(self._holding, query, state.first_live_pane)
        incoming = state.incoming.pop(source, None)
        if incoming is not None and incoming.sealed is not None:
            if incoming.whole:
                replica.forget(self._holding)
                # Another set: a compaction of the old one that is under way finds nobody to give its result to.
                replica = state.replicas[source] = Replica()
            self._holding.commit(query, [block.offset for block in incoming.sealed])
            replica.add(incoming.sealed)
        replica.epoch, replica.taken_over = epoch, frozenset()
        return replica

    def promote(self, query: bytes, state: QueryState, request: Promote) -> None:
        """The replica as of the epoch becomes this agent's own. Idempotent.

        Raises:
            InvalidRequestError: there is no replica of that epoch, or the call comes late.
        """
        if state.promoted.get(request.source) == request.epoch:
            return
        if request.epoch < state.epoch:
            raise InvalidRequestError(f"promotion as of epoch {request.epoch}: epoch {state.epoch} has been committed")
        self.check_commit(state, request.source, request.epoch, request.blocks)
        replica = self.commit(query, state, request.source, request.epoch)
        self.abandon(query, state, request.source)
        replica.swap(self._holding, query, state.first_live_pane)
        del state.replicas[request.source]
        state.own.add(replica.live.values())
        replica.live = {}  # who still spills one of them finds it here no more
        state.promoted.update(dict.fromkeys((request.source, *replica.taken_over), request.epoch))

    def forget(self, query: bytes, state: QueryState) -> None:
        """Every replica goes."""
        self.abandon_all(query, state)
        for replica in state.replicas.values():
            replica.forget(self._holding)
        state.replicas.clear()


def check_written(query: bytes, incarnation: bytes, plan: Plan, offset: ArenaOffset, view: Any) -> LiveBlock:
    """A block as a peer has written it, every head and segment checked.

    Raises:
        CorruptBlockError: it is not whole, or not what was to be written there.
    """
    raw = copied_head(view)
    head = Head(raw)
    found = (head.query, head.incarnation, head.arena_offset, head.length, head.fingerprint)
    if found != (query, incarnation, offset, memoryview(view).nbytes, plan.fingerprint):
        raise CorruptBlockError(f"what a peer has written at {offset} is no block of this query at that place")
    for segment in segments_of(raw):
        data = memoryview(view)[segment.offset : segment.offset + segment.length]
        if crc32c(data) != segment.crc:
            raise CorruptBlockError(f"a segment that a peer has written at {offset + segment.offset} is not whole")
    return LiveBlock.of(raw)
