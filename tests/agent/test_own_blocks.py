"""What a driver hears of an agent's blocks: what has changed since its last answer, and all of it after a loss."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pyslash.agent.store import own_blocks
from pyslash.agent.store.adopt import relocated
from pyslash.agent.store.block_set import LiveBlock
from pyslash.agent.store.own_blocks import OwnBlocks
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Live
from pyslash.state.version import StateVersion
from tests.agent.blocks import PLAN, QUERY, attach, write


def test_an_answer_has_what_has_changed_since_the_one_before(agent: AgentDescriptor, client: AgentClient) -> None:
    first, second = write(agent, 0, [0]), write(agent, 1, [10])
    whole = client.commit(0, [first.arena_offset], PLAN)
    assert (whole.edit.whole, list(whole.edit.heads)) == (True, [first.arena_offset])
    more = client.commit(1, [second.arena_offset], PLAN, known=whole.edit.number)
    assert (more.edit.whole, list(more.edit.heads), more.edit.gone) == (False, [second.arena_offset], set())
    client.release(10_000_000)
    less = client.live(known=more.edit.number)
    assert (less.edit.whole, less.edit.heads, less.edit.gone) == (False, {}, {first.arena_offset})


def test_after_an_answer_that_was_lost_all_is_told_again(agent: AgentDescriptor, client: AgentClient) -> None:
    first, second = write(agent, 0, [0]), write(agent, 1, [0])
    before = client.commit(0, [first.arena_offset], PLAN)
    client.commit(1, [second.arena_offset], PLAN, known=before.edit.number)  # the answer does not arrive
    again = client.commit(1, [second.arena_offset], PLAN, known=before.edit.number)
    assert again.edit.whole
    assert set(again.edit.heads) == {first.arena_offset, second.arena_offset}


class _Unpinned:
    """An arena of which this test needs nothing."""

    def free_when_unpinned(self, offsets: list[int]) -> None:
        """They are free."""


def test_a_driver_knows_what_lives_whatever_is_lost(
    agent: AgentDescriptor, client: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random changes at offsets that are used again; answers hold two heads, and one in five does not arrive."""
    chance, known, own = random.Random(1), StateVersion(), OwnBlocks()
    written = write(agent, 0, [0])
    head = bytes(attach(agent).view(written.arena_offset, written.head_length))
    heads = [relocated(head, QUERY, agent.incarnation_bytes, 64 * place) for place in range(1, 12)]
    monkeypatch.setattr(own_blocks, "_MOST_BYTES", 2 * len(head))

    def act(_: str, request: Live) -> dict[str, Any]:
        answer = own.edit_since(request.known).record()
        assert len(answer["heads"]) <= 2
        if chance.random() < 0.2:
            raise ConnectionError
        return {**answer, "used_bytes": 0, "arena_bytes": 1, "spilled_bytes": 0}

    monkeypatch.setattr(client, "act", act)
    heard = 0
    for _ in range(2000):
        for block in chance.sample([LiveBlock.of(one) for one in heads], 3):
            if block.offset in own.live:
                own.retire(_Unpinned(), [block.offset])  # type: ignore[arg-type]
            if chance.random() < 0.6:
                own.add([block])
        try:
            known.apply(agent, client.live(known=known.known(agent.incarnation)).edit)
        except ConnectionError:
            continue
        heard += 1
        assert [block.raw for block in known.blocks()] == [own.live[offset].head for offset in sorted(own.live)]
    assert heard > 500
