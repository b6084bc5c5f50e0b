"""An arena that is full: cold blocks go to disk and are read from there, up to a cap, and nothing is lost by it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from pyslash import _native
from pyslash.agent.compaction.folding import MAX_BLOCKS
from pyslash.agent.store.spill import FIRST_PLACE, default_directory, scratch_arena
from pyslash.agent.store.spill import write as write_to_disk
from pyslash.agent.store.spiller import free_bytes
from pyslash.errors import ArenaFullError, FencedError, InvalidRequestError, SpillError
from pyslash.ingest.block_publisher import BlockPublisher
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Checkpoint, MakeRoom, Promote, Replicate, Restore, Resume
from pyslash.state.receipt import Receipt
from pyslash.units import BEFORE_ALL_PANES
from tests.agent.blocks import OTHER_QUERY, PLAN, QUERY, SECOND, attach, rows, write
from tests.agent.conftest import MIB, Pair
from tests.agent.test_compaction import compactions, eventually

GIB = 1 << 30
KEYS = range(20_000)  # about half a megabyte a block


def room(client: AgentClient, epoch: int, size: int, folder: Path, most: int = GIB, run: int = 0) -> int:
    """Bytes on disk after it."""
    return client.make_room(MakeRoom(epoch, run, size, str(folder), most), 20)


def spill_all(client: AgentClient, epoch: int, folder: Path) -> int:
    """The same, with nothing left in the arena."""
    return room(client, epoch, attach(client.descriptor).capacity, folder)


def read_all(client: AgentClient, heads: list[bytes], panes: list[int]) -> list[tuple[int, int, int]]:
    """(pane in seconds, key, sum) of all blocks together, read through the agent."""
    merger = _native.Merger(_native.Plan(PLAN), [pane * SECOND for pane in panes])
    for raw in heads:
        head = _native.Head(raw)
        ranges = head.ranges(-(1 << 62), 1 << 62, 0, 1 << 32)
        for (offset, _), buffer in zip(ranges, client.read(head.arena_offset, ranges), strict=True):
            merger.add(raw, offset, buffer)
    found = []
    while (batch := merger.next()) is not None:
        table = pa.record_batch(batch)
        starts = table.column(0).cast(pa.int64()).to_pylist()
        found += zip(starts, table.column(2).to_pylist(), table.column(3).to_pylist(), strict=True)
    return sorted((begin // SECOND, key, total) for begin, key, total in found)


def spilled(heads: list[bytes]) -> list[_native.Head]:
    """Those that lie on disk."""
    return [head for head in map(_native.Head, heads) if head.arena_offset >= FIRST_PLACE]


def fill(agent: AgentDescriptor, client: AgentClient, epochs: int, keys: range = KEYS) -> list[bytes]:
    """One committed block an epoch, each of a pane of its own."""
    for epoch in range(epochs):
        heads = client.commit(epoch, [write(agent, epoch, [10 * epoch], keys).arena_offset], PLAN).blocks
    return heads


def test_spilled_blocks_are_read_from_disk(agent: AgentDescriptor, client: AgentClient, tmp_path: Path) -> None:
    before = fill(agent, client, 4)
    expected = read_all(client, before, [0, 10, 20, 30])
    used = client.describe().used_bytes
    on_disk = spill_all(client, 4, tmp_path)
    heads = client.commit(4, [], PLAN).blocks
    assert on_disk == sum(head.length for head in spilled(heads))
    assert (len(heads), len(spilled(heads))) == (4, 4)
    assert client.describe().used_bytes < used
    assert attach(agent).blocks() == []
    assert os.listdir(tmp_path) == []  # the files have no name: nothing is left after a kill
    assert read_all(client, heads, [0, 10, 20, 30]) == expected


def test_the_pane_that_closes_last_goes_first(client: AgentClient, agent: AgentDescriptor, tmp_path: Path) -> None:
    fill(agent, client, 4)
    _, largest = free_bytes(attach(agent))
    room(client, 4, largest + 1, tmp_path)
    heads = client.commit(4, [], PLAN).blocks
    assert [head.panes[0][0] for head in spilled(heads)] == [30 * SECOND]


def test_half_of_the_arena_is_made_free_once_room_is_made(
    start: Callable[..., Pair],
    tmp_path: Path,
) -> None:
    agent, client = start(arena_bytes=8 * MIB)
    fill(agent, client, 5)
    room(client, 5, 1, tmp_path)
    free, largest = free_bytes(attach(agent))
    assert free >= attach(agent).capacity / 2
    assert attach(agent).allocate(largest, OTHER_QUERY, 0)


def test_a_full_arena_takes_the_next_block_once_it_has_room(
    start: Callable[..., Pair],
    tmp_path: Path,
) -> None:
    agent, client = start(arena_bytes=8 * MIB)
    heads: list[bytes] = []
    for epoch in range(25):
        room(client, epoch, 2 * MIB, tmp_path)
        heads = client.commit(epoch, [write(agent, epoch, [10 * epoch], KEYS).arena_offset], PLAN).blocks
    assert sum(_native.Head(head).length for head in heads) > 8 * MIB
    assert read_all(client, heads, [0, 60, 240]) == [(pane, key, key) for pane in (0, 60, 240) for key in KEYS]


def test_a_task_that_finds_the_arena_full_leaves_blocks_where_they_are(
    start: Callable[..., Pair], secret: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, client = start(arena_bytes=4 * MIB)
    epoch = 0
    while free_bytes(attach(agent))[1] > MIB:
        heads = client.commit(epoch, [write(agent, epoch, [10 * epoch], KEYS).arena_offset], PLAN).blocks
        epoch += 1
    monkeypatch.setattr("pyslash.agent.process.launch.ensure_from_worker", lambda *_: agent)
    publisher = BlockPublisher(PLAN, -(1 << 62), QUERY, epoch, secret, 4 * MIB)
    large = [rows([0], range(100_000))]
    with pytest.raises(ArenaFullError) as full:
        publisher.receipt(large)
    assert client.live().blocks == heads
    assert not spilled(heads)
    room(client, epoch, full.value.wanted_bytes, tmp_path)
    receipt = Receipt.parse(publisher.receipt(large))
    heads = client.commit(epoch, [receipt.head.arena_offset], PLAN).blocks
    assert spilled(heads)
    assert read_all(client, heads, [10]) == [(10, key, key) for key in KEYS]


def test_past_the_cap_the_error_has_the_numbers_and_nothing_is_lost(
    agent: AgentDescriptor, client: AgentClient, tmp_path: Path
) -> None:
    before = fill(agent, client, 3)
    cap = _native.Head(before[0]).length
    with pytest.raises(SpillError, match=rf"room for 66000000 bytes.*spark\.slash\.spill\.maxBytes={cap}"):
        room(client, 3, 66_000_000, tmp_path, most=cap)
    heads = client.commit(3, [], PLAN).blocks
    assert len(spilled(heads)) == 1
    assert read_all(client, heads, [0, 10, 20]) == [(pane, key, key) for pane in (0, 10, 20) for key in KEYS]


def test_a_disk_that_takes_nothing_fails_typed_and_nothing_is_lost(
    agent: AgentDescriptor, client: AgentClient, tmp_path: Path
) -> None:
    before = fill(agent, client, 2)
    with pytest.raises(SpillError, match=r"cannot be spilled to .*spark\.slash\.spill\.dir"):
        spill_all(client, 2, tmp_path / "missing")
    assert client.commit(2, [], PLAN).blocks == before
    assert spill_all(client, 3, tmp_path) > 0


def test_a_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fdopen

    class Full:
        """A disk that takes a kilobyte."""

        def __init__(self, handle: int, *_: object, **__: object) -> None:
            self._file, self._left = real(handle, "wb", buffering=0), 1024

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

        def write(self, data: memoryview) -> int:
            if not self._left:
                raise OSError(28, "No space left on device")
            size = self._file.write(data[: self._left])
            self._left -= size
            return size

    monkeypatch.setattr(os, "fdopen", Full)
    with pytest.raises(SpillError, match="No space left on device"):
        write_to_disk(str(tmp_path), [bytes(1000), bytes(1000)])
    assert os.listdir(tmp_path) == []


def test_room_is_refused_while_merges_may_read_and_to_an_earlier_run(
    agent: AgentDescriptor, client: AgentClient, tmp_path: Path
) -> None:
    fill(agent, client, 2)
    with pytest.raises(InvalidRequestError, match="epoch 1"):
        room(client, 1, 1, tmp_path)
    client.resume(Resume(1, PLAN, 3, BEFORE_ALL_PANES))
    with pytest.raises(FencedError, match=r"run 2 .* run 3"):
        room(client, 2, 1, tmp_path, run=2)


def test_dead_panes_leave_the_disk(agent: AgentDescriptor, client: AgentClient, tmp_path: Path) -> None:
    fill(agent, client, 3)
    spill_all(client, 3, tmp_path)
    client.commit(3, [], PLAN)
    assert client.stats()["spilled_bytes"] > 0
    client.release(20 * SECOND)
    assert len(client.commit(4, [], PLAN).blocks) == 1
    client.drop()
    assert client.stats()["spilled_bytes"] == 0


def test_compaction_goes_on_beside_spilled_blocks(agent: AgentDescriptor, client: AgentClient, tmp_path: Path) -> None:
    fill(agent, client, 2, range(100))
    spill_all(client, 2, tmp_path)
    for epoch in range(2, 2 + MAX_BLOCKS + 1):
        client.commit(epoch, [write(agent, epoch, [0]).arena_offset], PLAN)
    assert eventually(lambda: compactions(client) == 1)
    heads = client.commit(50, [], PLAN).blocks
    assert (len(heads), len(spilled(heads))) == (3, 2)
    assert read_all(client, heads, [0]) == [(0, key, (MAX_BLOCKS + 2) * key) for key in range(100)]


def test_a_finished_fold_of_what_is_spilled_is_counted_once(
    agent: AgentDescriptor, client: AgentClient, tmp_path: Path
) -> None:
    for epoch in range(MAX_BLOCKS + 1):
        client.commit(epoch, [write(agent, epoch, [0]).arena_offset], PLAN)
    assert eventually(lambda: compactions(client) == 1)
    spill_all(client, 20, tmp_path)
    heads = client.commit(20, [], PLAN).blocks
    assert read_all(client, heads, [0]) == [(0, key, (MAX_BLOCKS + 1) * key) for key in range(100)]


def spill_each(agent: AgentDescriptor, client: AgentClient, epochs: int, folder: Path) -> list[bytes]:
    """Blocks of the same keys and panes, one an epoch, each on disk before the next one is written."""
    for epoch in range(epochs):
        client.commit(epoch, [write(agent, epoch, [0, 10], KEYS).arena_offset], PLAN)
        spill_all(client, epoch + 1, folder)
    return client.commit(epochs, [], PLAN).blocks


def test_spilled_blocks_of_the_same_keys_are_folded_on_disk(
    agent: AgentDescriptor, client: AgentClient, tmp_path: Path
) -> None:
    before = spill_each(agent, client, MAX_BLOCKS + 1, tmp_path)
    assert len(spilled(before)) == MAX_BLOCKS + 1
    on_disk = client.describe().spilled_bytes
    assert eventually(lambda: compactions(client) == 1)
    expected = [(pane, key, (MAX_BLOCKS + 1) * key) for pane in (0, 10) for key in KEYS]
    # A merge may still be reading: the blocks are there, in their places, until the next commit.
    assert client.live().blocks == before
    assert read_all(client, before, [0, 10]) == expected
    after = client.commit(MAX_BLOCKS + 2, [], PLAN)
    assert (len(after.blocks), len(spilled(after.blocks))) == (1, 1)
    assert read_all(client, after.blocks, [0, 10]) == expected
    assert after.spilled_bytes < on_disk / MAX_BLOCKS * 2
    assert (attach(agent).blocks(), os.listdir(tmp_path)) == ([], [])


def test_a_fold_on_disk_that_comes_too_late_leaves_nothing(
    agent: AgentDescriptor, client: AgentClient, tmp_path: Path
) -> None:
    spill_each(agent, client, MAX_BLOCKS + 1, tmp_path)
    assert eventually(lambda: compactions(client) == 1)
    client.drop()
    assert client.stats()["spilled_bytes"] == 0


def test_a_fold_has_its_room_on_disk_before_it_begins(tmp_path: Path) -> None:
    with scratch_arena(str(tmp_path), 4 * MIB) as (arena, fd):
        assert arena.size == 4 * MIB
        assert os.fstat(fd).st_blocks * 512 >= 4 * MIB
        assert os.listdir(tmp_path) == []
    refused = pytest.raises(SpillError, match=r"are not free in .*gone.*spark\.slash\.spill\.dir")
    with refused, scratch_arena(str(tmp_path / "gone"), MIB):
        pass


def test_snapshots_and_replicas_hold_what_is_spilled(
    agent: AgentDescriptor,
    client: AgentClient,
    standby: Pair,
    tmp_path: Path,
) -> None:
    expected = read_all(client, fill(agent, client, 2), [0, 10])
    spill_all(client, 2, tmp_path)
    written = client.checkpoint(Checkpoint(2, [], PLAN, 0, str(tmp_path), "2.arrow", True), 20)
    client.replicate(Replicate(2, [], PLAN, 0, standby[0].to_json(), "auto", True), 20)
    standby[1].commit(2, [], PLAN, 0, replicas=[[agent.incarnation, []]])
    assert spill_all(standby[1], 3, tmp_path) > 0  # a replica goes before anything else
    standby[1].promote(Promote(2, agent.incarnation, [], PLAN, 0))
    promoted = standby[1].live().blocks
    assert len(spilled(promoted)) == 2
    assert read_all(standby[1], promoted, [0, 10]) == expected
    file = ["2.arrow", written["bytes"], written["crc"]]
    assert read_all(client, client.restore(Restore(PLAN, 1, str(tmp_path), [file]), 20).blocks, [0, 10]) == expected


def test_a_file_larger_than_its_arena_is_restored(
    agent: AgentDescriptor, client: AgentClient, start: Callable[..., Pair], tmp_path: Path
) -> None:
    panes = [10 * epoch for epoch in range(MAX_BLOCKS)]  # one more, and they would be folded
    expected = read_all(client, fill(agent, client, len(panes)), panes)
    written = client.checkpoint(Checkpoint(8, [], PLAN, 0, str(tmp_path), "8.arrow", True), 20)
    little, small = start(arena_bytes=4 * MIB)
    assert written["bytes"] > attach(little).capacity
    request = Restore(PLAN, 1, str(tmp_path), [["8.arrow", written["bytes"], written["crc"]]])
    fills = 0
    while True:
        try:
            heads = small.restore(request, 20).blocks
            break
        except ArenaFullError as full:
            fills += 1
            room(small, 9, full.wanted_bytes, tmp_path, run=1)
    assert 0 < fills < 10
    assert len(heads) == len(panes)
    assert read_all(small, heads, panes) == expected


def test_the_default_directory_is_the_executor_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_EXECUTOR_DIRS", f"/nowhere:{tmp_path}")
    assert default_directory() == str(tmp_path)
    for name in ("SPARK_EXECUTOR_DIRS", "LOCAL_DIRS", "SPARK_LOCAL_DIRS"):
        monkeypatch.delenv(name, raising=False)
    assert os.path.isdir(default_directory())
