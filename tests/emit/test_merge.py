"""A merge in parts gives the rows of a merge in one, and the same errors."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from pyslash import _native
from pyslash.emit import fetch
from pyslash.emit.merge import PREFIXES, MergeRequest, merge
from pyslash.errors import AgentTimeoutError, CorruptBlockError, SlashError, StaleIncarnationError
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.transport import Range
from tests.agent.blocks import PLAN, SECOND, rows
from tests.native.blocks import new_arena, sealed

WINDOWS = [0, 10 * SECOND, 20 * SECOND]
WHOLE = (0, PREFIXES)
READER = "pyslash look-ahead"


@dataclass
class Arena:
    """A peer's arena with blocks, and a transport to it whose `fail_at`th read fails, or brings a wrong bit."""

    arena: _native.Arena
    heads: list[bytes]
    name: str = "tcp"
    fail_at: int = 0
    failure: SlashError | None = None
    read_by: list[str] = field(default_factory=list)

    def read(self, peer: AgentDescriptor, block_offset: int, ranges: list[Range]) -> list[Any]:
        self.read_by.append(threading.current_thread().name)
        buffers = [bytearray(self.arena.view(block_offset + offset, length)) for offset, length in ranges]
        if len(self.read_by) == self.fail_at:
            if self.failure is not None:
                raise self.failure
            buffers[0][-1] ^= 1
        return buffers

    def merge(self, prefixes: tuple[int, int] = WHOLE, moved: Counter[str] | None = None) -> pa.Table:
        """The rows in order of window and key."""
        peer = AgentDescriptor(1, 1, 1, self.arena.size, self.arena.incarnation.hex(), "", "", 1, "", "", "")
        schema = pa.schema(_native.Plan(PLAN).schema)
        blocks = [(peer, head) for head in self.heads]
        request = MergeRequest(PLAN, WINDOWS, None, (0, 30 * SECOND), blocks, bytes(16), b"", "tcp", schema, 30)
        counts = Counter() if moved is None else moved
        batches = merge(request, *prefixes, lambda name, size: counts.update({name: size}))
        return pa.Table.from_batches(batches, schema).sort_by([(name, "ascending") for name in schema.names[::2]])


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Arena]:
    """Four blocks of up to 60,000 groups; two have a pane to themselves, one is a single segment."""
    plan = _native.Plan(PLAN)
    with new_arena() as arena:
        contents = [([0, 10], range(30_000)), ([10], range(15_000, 60_000)), ([20], range(40_000)), ([0], range(5))]
        made = Arena(arena, [sealed(plan, arena, [rows(*content)], epoch) for epoch, content in enumerate(contents)])
        monkeypatch.setattr(fetch, "choose_transport", lambda *_: made)
        yield made


def in_parts_of(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(fetch, "PART_BYTES", size)


@pytest.mark.parametrize("size", [100_000, 700_000, 2_000_000])
@pytest.mark.parametrize("prefixes", [WHOLE, (PREFIXES // 3, PREFIXES // 2), (7, 8)])
def test_parts_hold_the_same_rows(
    peer: Arena, monkeypatch: pytest.MonkeyPatch, size: int, prefixes: tuple[int, int]
) -> None:
    whole: Counter[str] = Counter()
    expected = peer.merge(prefixes, whole)
    assert set(peer.read_by) <= {threading.current_thread().name}
    peer.read_by.clear()
    in_parts_of(monkeypatch, size)
    parts: Counter[str] = Counter()
    assert peer.merge(prefixes, parts) == expected
    assert whole["tcp"] <= parts["tcp"] <= 1.25 * whole["tcp"]
    if prefixes == WHOLE and size < 2_000_000:
        assert set(peer.read_by) == {READER}
        assert len(peer.read_by) >= 2 * (len(peer.heads) - 1)


def test_blocks_of_few_segments_are_read_once(peer: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    peer.heads = peer.heads[-1:]
    in_parts_of(monkeypatch, 64)
    assert peer.merge().num_rows == 5
    assert len(peer.read_by) == 1


def test_shared_memory_is_not_read_ahead(peer: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    peer.name = "shm"
    in_parts_of(monkeypatch, 100_000)
    assert peer.merge().num_rows > 0
    assert set(peer.read_by) == {threading.current_thread().name}


@pytest.mark.parametrize("fail_at", [1, 2, 7])
@pytest.mark.parametrize(
    "failure", [StaleIncarnationError("the peer is gone"), AgentTimeoutError("0 of 7 came"), None], ids=str
)
@pytest.mark.parametrize("size", [100_000, 1 << 30], ids=["in parts", "in one"])
def test_a_read_that_fails_fails_the_merge_in_the_same_way(
    peer: Arena, monkeypatch: pytest.MonkeyPatch, fail_at: int, failure: SlashError | None, size: int
) -> None:
    in_parts_of(monkeypatch, size)
    peer.fail_at, peer.failure = min(fail_at, 4) if size > 1 << 20 else fail_at, failure
    with pytest.raises(type(failure) if failure else CorruptBlockError, match=str(failure) if failure else "CRC"):
        peer.merge()
