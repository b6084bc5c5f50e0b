"""Blocks that tasks have published. Each block in a request must be the very one that its task reported."""

from __future__ import annotations

from pyslash._native import Arena, Head
from pyslash.agent.store.block_set import LiveBlock
from pyslash.agent.store.query_state import QueryState
from pyslash.errors import InvalidRequestError
from pyslash.protocol.messages import Checkpoint, Commit, Fold, Replicate
from pyslash.state.block_state import BlockState
from pyslash.state.files.block_head import copied_head, head_crc
from pyslash.units import ArenaOffset, Epoch


def reported(
    arena: Arena, query: bytes, state: QueryState, request: Commit | Checkpoint | Fold | Replicate
) -> list[LiveBlock]:
    """The blocks that a request names, each the one that its task has reported."""
    lengths = _published_lengths(arena, query)
    heads = dict(zip(request.offsets, request.heads, strict=False))
    return [
        _published(arena, query, state, request.epoch, offset, lengths, heads.get(offset)) for offset in request.offsets
    ]


def _published_lengths(arena: Arena, query: bytes) -> dict[ArenaOffset, int]:
    # Not the committed ones: what an earlier run has left may go as soon as it is unpinned.
    return {
        offset: length
        for offset, length, state, _, owner, _ in arena.blocks()
        if owner == query and state == BlockState.PUBLISHED
    }


def _published(
    arena: Arena,
    query: bytes,
    state: QueryState,
    epoch: Epoch,
    offset: ArenaOffset,
    lengths: dict[ArenaOffset, int],
    crc: int | None,
) -> LiveBlock:
    if offset not in lengths or offset in state.own.live:
        raise InvalidRequestError(f"commit of epoch {epoch}: no new block of this query lies at {offset}")
    # One copy, which alone is looked at: the arena is shared with tasks.
    raw = copied_head(arena.view(offset, lengths[offset]))
    head = Head(raw)
    if (head.arena_offset, head.length) != (offset, lengths[offset]):
        raise InvalidRequestError(
            f"commit of epoch {epoch}: the block at {offset} of {lengths[offset]} bytes says that it has {head.length} "
            f"at {head.arena_offset}"
        )
    if head.query != query or head.epoch != epoch or head.incarnation != arena.incarnation:
        raise InvalidRequestError(
            f"commit of epoch {epoch}: the block at {offset} is of epoch {head.epoch} and query {head.query.hex()}"
        )
    if crc is not None and head_crc(raw) != crc:
        raise InvalidRequestError(
            f"commit of epoch {epoch}: the block at {offset} is not the one that its task has reported, but a "
            f"later one, of attempt {head.attempt}"
        )
    if head.fingerprint != state.plan.fingerprint:
        raise InvalidRequestError(f"commit of epoch {epoch}: the block at {offset} was made by another plan")
    return LiveBlock.of(raw)
