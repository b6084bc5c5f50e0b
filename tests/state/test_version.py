"""What is live: every question is answered as by a look at all blocks, and costs what has changed."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from pyslash.plan.emission import Emission
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.window import TimeWindow
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.version_edit import VersionEdit
from pyslash.state import version as module
from pyslash.state.version import LiveBlock, Size, StateVersion, panes_of
from pyslash.units import BEFORE_ALL_PANES


class _Head:
    """A head that is JSON."""

    def __init__(self, raw: bytes) -> None:
        fields = json.loads(raw)
        self.epoch, self.length = fields["epoch"], fields["length"]
        self.panes = [tuple(pane) for pane in fields["panes"]]


def _head(epoch: int, panes: list[tuple[int, int, int]]) -> bytes:
    return json.dumps({"epoch": epoch, "length": 64 + sum(size for *_, size in panes), "panes": panes}).encode()


def _agent(number: int) -> AgentDescriptor:
    return AgentDescriptor(number, 0, 0, 1 << 30, f"{number:032x}", "", f"host{number}", 0, "", "", "")


@pytest.fixture(autouse=True)
def plain_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Head", _Head)


def _random_edit(chance: random.Random, live: dict[int, bytes], number: int) -> VersionEdit:
    whole = number == 1 or chance.random() < 0.05
    gone = frozenset(chance.sample(sorted(live), chance.randrange(len(live) + 1))) if not whole else frozenset[int]()
    if whole:
        live.clear()
    for offset in gone:
        del live[offset]
    heads = {}
    for offset in chance.sample([one for one in range(40) if one not in live], chance.randrange(4)):
        panes = sorted(chance.sample(range(0, 100, 5), chance.randrange(6)))
        heads[offset] = _head(number, [(pane, chance.randrange(9), chance.randrange(99)) for pane in panes])
    live.update(heads)
    return VersionEdit(number, whole, gone, heads)


def _size(blocks: list[LiveBlock], first: int, end: int) -> Size:
    panes = [pane for block in blocks for pane in block.panes if first <= pane[0] < end]
    return Size(sum(groups for _, groups, _ in panes), sum(size for *_, size in panes))


def test_every_question_is_answered_as_by_a_look_at_all_blocks() -> None:
    chance, known = random.Random(3), StateVersion()
    agents = [_agent(number) for number in range(3)]
    live: dict[AgentDescriptor, dict[int, bytes]] = {agent: {} for agent in agents}
    for number in range(1, 300):
        edits = {
            agent: _random_edit(chance, live[agent], number) for agent in agents if number == 1 or chance.random() < 0.7
        }
        known.commit(number, str(number), edits)
        all_blocks = [LiveBlock.of(agent, raw) for agent in agents for _, raw in sorted(live[agent].items())]
        raws = [block.raw for block in all_blocks]
        assert [block.raw for block in known.blocks()] == raws
        assert (len(known), known.panes(), known.epoch) == (len(raws), panes_of(all_blocks), number)
        assert known.size == _size(all_blocks, 0, 100)
        first, end = sorted(chance.sample(range(-10, 110), 2))
        inside = [block for block in all_blocks if any(first <= pane < end for pane, *_ in block.panes)]
        assert [block.raw for block in known.within(first, end)] == [block.raw for block in inside]
        assert known.panes(first, end) == {pane for pane in panes_of(all_blocks) if first <= pane < end}
        assert known.size_within(first, end) == _size(all_blocks, first, end)
        epoch = chance.randrange(max(1, number - 5), number + 1)
        assert [block.raw for block in known.of_epoch(epoch)] == [one.raw for one in all_blocks if one.epoch == epoch]
        assert known.held_with([]) == {
            agent.incarnation: (
                max((pane for pane, *_ in panes), default=BEFORE_ALL_PANES),
                sum(_Head(raw).length for raw in live[agent].values()),
            )
            for agent in agents
            for panes in [[pane for raw in live[agent].values() for pane in _Head(raw).panes]]
            if live[agent]
        }
        assert [known.has(agent.incarnation) for agent in agents] == [bool(live[agent]) for agent in agents]


@pytest.mark.parametrize("mode", [OutputMode.APPEND, OutputMode.UPDATE])
def test_an_epoch_looks_at_what_it_has_changed_however_much_is_live(
    monkeypatch: pytest.MonkeyPatch, mode: OutputMode
) -> None:
    """All that the driver asks in an epoch, of a hundred and of ten thousand blocks that are live."""
    touched: Counter[str] = Counter()

    class Counting(LiveBlock):
        def __getattribute__(self, name: str) -> Any:
            touched["heads"] += name in ("head", "raw", "panes", "epoch")
            return super().__getattribute__(name)

    monkeypatch.setattr(module, "LiveBlock", Counting)
    window = TimeWindow(10, 10, 0)
    emission = Emission(mode, window, True)

    def touches(held: int) -> int:
        known, agents = StateVersion(), [_agent(0), _agent(1)]
        for agent in agents:
            heads = {at: _head(at, [(1000 + 10 * pane, 5, 80) for pane in range(at, at + 9)]) for at in range(held)}
            known.apply(agent, VersionEdit(1, True, frozenset(), heads))
        touched.clear()
        epoch, emitted_us, watermark_us = held + 1, 1000, 1020
        new = {held + one: _head(epoch, [(1000 + 10 * one, 5, 80)]) for one in range(4)}
        known.commit(epoch, "next", {agent: VersionEdit(2, False, frozenset({0}), new) for agent in agents})
        changes = known.of_epoch(epoch)
        looked_at = known.panes(*emission.looked_at(emitted_us, watermark_us, 0))
        windows = emission.windows(looked_at, panes_of(changes), emitted_us, watermark_us, 0)
        assert windows == ([1000, 1010] if mode is OutputMode.APPEND else [1000, 1010, 1020, 1030])
        assert known.within(windows[0], windows[-1] + 10)
        assert known.size_within(windows[0], windows[-1] + 10).bytes
        assert known.held_with([])
        assert known.size.groups > 0
        return touched["heads"]

    few = touches(100)
    assert few == touches(10_000) < 150
