"""Checkpoint and restore by agents: blocks go to a file and come back in another arena, once, for one run."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyslash import _native
from pyslash._native import Head, crc32c
from pyslash.agent.checkpoint import Checkpointer
from pyslash.agent.process.launch import AgentRequest, ensure
from pyslash.agent.store.adopt import adopt
from pyslash.agent.store.query_state import QueryState
from pyslash.errors import ArenaFullError, CheckpointError, CorruptBlockError, FencedError, InvalidRequestError
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Checkpoint, Commit, FoldFiles, Replicate, Restore, Resume, Snapshot, Take
from pyslash.protocol.token import query_token
from pyslash.state.files.block_head import head_crc
from pyslash.units import AFTER_ALL_PANES, Run
from tests.agent.blocks import OTHER_QUERY, PLAN, QUERY, attach, merged, write
from tests.agent.conftest import Pair
from tests.transport.in_process import serving

RATE = 1 << 30


def store(
    client: AgentClient, folder: Path, epoch: int, offsets: list[int], run: int = 1, snapshot: bool = False
) -> list[object]:
    """A checkpoint; the file as a restore names it."""
    name = f"{epoch}.arrow"
    written = client.checkpoint(Checkpoint(epoch, offsets, PLAN, run, str(folder), name, snapshot), 20)
    return [name, written["bytes"], written["crc"]]


def test_a_stored_epoch_comes_back_in_another_agent(
    agent: AgentDescriptor,
    client: AgentClient,
    secret: bytes,
    request_agent: Callable[..., AgentRequest],
    tmp_path: Path,
) -> None:
    first, second = write(agent, 0, [0]), write(agent, 0, [10], keys=range(9000))
    file = store(client, tmp_path, 0, [first.arena_offset, second.arena_offset])
    committed = client.commit(0, [first.arena_offset, second.arena_offset], PLAN, 1)
    expected = merged(agent, committed.blocks, [0, 10])
    jvm = subprocess.Popen(["sleep", "600"])
    try:
        other = ensure(request_agent(jvm_pid=jvm.pid))
        with AgentClient(other, QUERY, query_token(secret, QUERY), secret=secret) as restored:
            write(other, 7, [0])  # shifts what comes after it
            for _ in range(2):
                reply = restored.restore(Restore(PLAN, 2, str(tmp_path), [file]), 20)
                assert merged(other, reply.blocks, [0, 10]) == expected
            assert len(restored.commit(1, [], PLAN, 2).blocks) == 2
    finally:
        jvm.kill()
        jvm.wait()


def test_a_file_is_written_without_pandas(agent: AgentDescriptor, client: AgentClient, tmp_path: Path) -> None:
    """PyArrow imports it by itself, which takes half a second and more memory than all else in an agent."""
    store(client, tmp_path, 0, [write(agent, 0, [0]).arena_offset])
    assert "pyarrow" in (mapped := Path(f"/proc/{agent.pid}/maps").read_text())
    assert "pandas" not in mapped


def test_a_query_that_ends_leaves_no_epoch_that_was_stored_and_never_committed(
    agent: AgentDescriptor, client: AgentClient, standby: Pair, tmp_path: Path
) -> None:
    before = write(agent, 0, [0])
    store(client, tmp_path, 0, [before.arena_offset])
    client.commit(0, [before.arena_offset], PLAN, 1)
    block = write(agent, 1, [10])
    store(client, tmp_path, 1, [block.arena_offset])
    client.replicate(Replicate(1, [block.arena_offset], PLAN, 1, standby[0].to_json(), "auto", True), 20)
    assert [len(attach(one).blocks()) for one in (agent, standby[0])] == [2, 2]
    client.release(10_000_000, 1)
    assert [len(attach(one).blocks()) for one in (agent, standby[0])] == [1, 2]  # it may be committed yet
    for one in (client, standby[1]):
        one.release(AFTER_ALL_PANES, 1)
    assert [len(attach(one).blocks()) for one in (agent, standby[0])] == [0, 0]


def test_a_snapshot_beside_epochs_holds_what_is_committed_by_then(
    agent: AgentDescriptor, client: AgentClient, tmp_path: Path
) -> None:
    request = Snapshot(PLAN, 1, str(tmp_path), "0-1-snapshot.arrow", RATE)
    with pytest.raises(InvalidRequestError, match="has committed nothing here"):
        client.snapshot(request, 20)
    blocks = [write(agent, epoch, [0, 10], keys=range(1000)) for epoch in (0, 1)]
    for block in blocks:
        client.commit(block.epoch, [block.arena_offset], PLAN, 1)
    live = client.live(1).blocks
    write(agent, 2, [0])  # of an epoch that is under way
    written = client.snapshot(request, 20)
    assert written["epoch"] == 1
    assert written["last_pane"] == 10_000_000
    file = [request.name, written["bytes"], written["crc"]]
    more = write(agent, 2, [20])
    client.commit(2, [more.arena_offset], PLAN, 1)
    with pytest.raises(InvalidRequestError, match="asked for before"):
        client.snapshot(request, 20)  # arrives twice: the manifest names what it was the first time
    with pytest.raises(FencedError):
        client.snapshot(Snapshot(PLAN, 0, str(tmp_path), "other.arrow", RATE), 20)
    reply = client.restore(Restore(PLAN, 2, str(tmp_path), [file]), 20)
    assert merged(agent, reply.blocks, [0, 10]) == merged(agent, live, [0, 10])


def test_a_snapshot_of_a_run_that_is_over_is_given_up(
    agent: AgentDescriptor, client: AgentClient, tmp_path: Path
) -> None:
    block = write(agent, 0, [0], keys=range(10_000))
    client.commit(0, [block.arena_offset], PLAN, 1)
    refused: list[object] = []

    def snapshot() -> None:
        with pytest.raises(FencedError, match="run 1 of the query is over") as error:
            client.snapshot(Snapshot(PLAN, 1, str(tmp_path), "0-1-snapshot.arrow", 1 << 10), 600)
        refused.append(error)

    writing = threading.Thread(target=snapshot)
    writing.start()
    while not any(tmp_path.iterdir()):
        time.sleep(0.01)
    client.end_snapshots(1)
    assert not any(tmp_path.iterdir())
    writing.join(60)
    assert refused
    with pytest.raises(FencedError, match="run 1 of the query is over"):
        client.snapshot(Snapshot(PLAN, 1, str(tmp_path), "later.arrow", RATE), 20)
    client.resume(Resume(0, PLAN, 2, 0))
    assert client.snapshot(Snapshot(PLAN, 2, str(tmp_path), "0-2-snapshot.arrow", RATE), 20)["epoch"] == 0


def test_files_are_folded_into_one_that_has_what_they_have(
    agent: AgentDescriptor, client: AgentClient, tmp_path: Path
) -> None:
    files = []
    for epoch in range(3):
        block = write(agent, epoch, [0, 10] if epoch else [-10, 0], keys=range(epoch, 3000 + epoch))
        files.append(store(client, tmp_path, epoch, [block.arena_offset]))
        client.commit(epoch, [block.arena_offset], PLAN, 1)
    expected = merged(agent, client.live(1).blocks, [0, 10])
    request = FoldFiles(PLAN, 1, str(tmp_path), files, "2-1.arrow", 0, RATE)
    written = client.fold_files(request, 20)
    with pytest.raises(InvalidRequestError, match=r"2-1\.arrow was asked for before"):
        client.fold_files(request, 20)
    with pytest.raises(CorruptBlockError, match="its manifest says"):
        client.fold_files(replace(request, files=[[files[0][0], files[0][1], 1]], name="other.arrow"), 20)
    with pytest.raises(InvalidRequestError, match="no pane of these files is alive"):
        client.fold_files(replace(request, first_live_pane=1 << 60, name="another.arrow"), 20)
    client.drop()
    reply = client.restore(Restore(PLAN, 2, str(tmp_path), [["2-1.arrow", written["bytes"], written["crc"]]]), 20)
    assert merged(agent, reply.blocks, [0, 10]) == expected
    (folded,) = reply.blocks
    assert [pane for pane, _, _ in Head(folded).panes] == [0, written["last_pane"]]  # without the one that is over
    client.end_snapshots(2)
    with pytest.raises(FencedError, match="run 2 of the query is over"):
        client.fold_files(replace(request, run=2, name="third.arrow"), 20)


def test_a_snapshot_brings_no_deleted_checkpoint_back(
    agent: AgentDescriptor, client: AgentClient, tmp_path: Path
) -> None:
    client.commit(0, [write(agent, 0, [0]).arena_offset], PLAN, 1)
    with pytest.raises(CheckpointError, match="cannot be written"):
        client.snapshot(Snapshot(PLAN, 1, str(tmp_path / "gone"), "0-1-snapshot.arrow", RATE), 20)
    assert not (tmp_path / "gone").exists()


def test_blocks_of_another_query_become_blocks_of_an_epoch_or_go_with_it(
    agent: AgentDescriptor, client: AgentClient, secret: bytes, tmp_path: Path
) -> None:
    with AgentClient(agent, OTHER_QUERY, query_token(secret, OTHER_QUERY), secret=secret) as other:
        made = write(agent, 0, [0, 10], keys=range(9000), query=OTHER_QUERY)
        file = store(other, tmp_path, 0, [made.arena_offset])
        other.commit(0, [made.arena_offset], PLAN, 1)
    own = write(agent, 7, [0])
    request = Take(7, PLAN, 1, str(tmp_path), [file])
    client.take(request, 20)
    assert client.discard(7, 1) == 2  # the epoch's own block went with it
    own = write(agent, 7, [0])
    (head,) = client.take(request, 20)
    taken = _native.Head(head)
    assert (taken.query, taken.epoch, taken.groups) == (QUERY, 7, made.groups)
    live = client.commit(7, [own.arena_offset, taken.arena_offset], PLAN, 1)
    assert head in live.blocks
    assert merged(agent, [head], [0, 10]) == [(pane, key, key) for pane in (0, 10) for key in range(9000)]
    with pytest.raises(FencedError):
        client.take(Take(8, PLAN, 0, str(tmp_path), [file]), 20)
    with pytest.raises(CorruptBlockError):
        client.take(Take(8, PLAN, 1, str(tmp_path), [[file[0], file[1], 1]]), 20)


def test_a_file_opens_with_pyarrow(agent: AgentDescriptor, client: AgentClient, tmp_path: Path) -> None:
    name, *_ = store(client, tmp_path, 0, [write(agent, 0, [0, 10]).arena_offset])
    table = pa.ipc.open_file(str(tmp_path / str(name))).read_all()
    assert table.column_names == ["block", "pane", "prefix_lo", "groups", "segment"]
    assert table["groups"].to_pylist() == [100, 100]
    assert [pane.second for pane in table["pane"].to_pylist()] == [0, 10]


def test_a_file_is_restored_once_and_another_one_of_its_name_is_refused(
    agent: AgentDescriptor, client: AgentClient, tmp_path: Path
) -> None:
    files = []
    for epoch, pane in enumerate([0, 10]):
        head = write(agent, epoch, [pane])
        files.append([*store(client, tmp_path / str(epoch), epoch, [head.arena_offset])])
        client.commit(epoch, [head.arena_offset], PLAN, 1)
    files[1][0] = files[0][0]
    (tmp_path / "1" / "1.arrow").rename(tmp_path / "1" / "0.arrow")
    for _ in range(2):
        assert len(client.restore(Restore(PLAN, 2, str(tmp_path / "0"), files[:1]), 20).blocks) == 1
    with pytest.raises(InvalidRequestError, match=r"another file 0.arrow than this one"):
        client.restore(Restore(PLAN, 2, str(tmp_path / "1"), files[1:]), 20)
    assert len(client.restore(Restore(PLAN, 3, str(tmp_path / "1"), files[1:]), 20).blocks) == 1


def test_a_commit_is_repeated_with_the_very_blocks_alone(agent: AgentDescriptor, client: AgentClient) -> None:
    head = write(agent, 0, [0])
    crc = head_crc(attach(agent).view(head.arena_offset, head.head_length))
    for _ in range(2):
        assert len(client.commit(0, [head.arena_offset], PLAN, 1, [crc]).blocks) == 1
    with pytest.raises(InvalidRequestError, match="committed with 1 other blocks"):
        client.commit(0, [head.arena_offset], PLAN, 1, [crc ^ 1])


def test_a_snapshot_holds_what_is_committed_too(agent: AgentDescriptor, client: AgentClient, tmp_path: Path) -> None:
    old = write(agent, 0, [0])
    store(client, tmp_path, 0, [old.arena_offset])
    client.commit(0, [old.arena_offset], PLAN, 1)
    file = store(client, tmp_path, 1, [write(agent, 1, [0]).arena_offset], snapshot=True)
    reply = client.restore(Restore(PLAN, 2, str(tmp_path), [file]), 20)
    assert merged(agent, reply.blocks, [0]) == [(0, key, 2 * key) for key in range(100)]


def test_a_later_run_voids_what_is_held_and_fences_the_earlier(
    agent: AgentDescriptor, client: AgentClient, tmp_path: Path
) -> None:
    old = write(agent, 0, [0])
    client.commit(0, [old.arena_offset], PLAN, 1)
    new = write(agent, 1, [10])
    reply = client.commit(1, [new.arena_offset], PLAN, 2)
    assert merged(agent, reply.blocks, [0, 10]) == [(10, key, key) for key in range(100)]
    with pytest.raises(FencedError, match=r"run 1 .* run 2"):
        client.commit(2, [], PLAN, 1)
    with pytest.raises(FencedError):
        store(client, tmp_path, 2, [], run=1)
    with pytest.raises(FencedError):
        client.release(1 << 62, 1)
    assert merged(agent, client.commit(1, [new.arena_offset], PLAN, 2).blocks, [10])


def test_a_block_that_took_the_place_of_the_reported_one_is_refused(
    agent: AgentDescriptor, client: AgentClient, tmp_path: Path
) -> None:
    reported = write(agent, 0, [0], attempt=1)
    assert client.discard(0) == 1  # a call of a failed update that comes late
    other = write(agent, 0, [0], attempt=2)
    assert other.arena_offset == reported.arena_offset
    offsets, heads = [reported.arena_offset], [crc32c(b"the head of the first")]
    with pytest.raises(InvalidRequestError, match="of attempt 2"):
        client.checkpoint(Checkpoint(0, offsets, PLAN, 1, str(tmp_path), "0.arrow", False, heads), 20)
    with pytest.raises(InvalidRequestError, match="of attempt 2"):
        client.commit(0, offsets, PLAN, 1, heads)
    actual = head_crc(attach(agent).view(other.arena_offset, other.head_length))
    assert len(client.commit(0, offsets, PLAN, 1, [actual]).blocks) == 1


def test_a_discard_that_comes_after_the_update_is_refused(
    agent: AgentDescriptor, client: AgentClient, tmp_path: Path
) -> None:
    store(client, tmp_path, 0, [write(agent, 0, [0]).arena_offset], run=2)
    with pytest.raises(InvalidRequestError, match="update was over"):
        client.discard(0, 2)
    with pytest.raises(FencedError, match="run 1"):
        client.discard(0, 1)
    assert client.discard(0, 3) == 1  # a later run begins the epoch anew


def test_a_changed_torn_or_missing_file_is_refused(agent: AgentDescriptor, client: AgentClient, tmp_path: Path) -> None:
    file = store(client, tmp_path, 0, [write(agent, 0, [0]).arena_offset])
    path = tmp_path / str(file[0])
    good = path.read_bytes()
    for bad in (b"", good[:-1], good[:100] + bytes([good[100] ^ 1]) + good[101:]):
        path.write_bytes(bad)
        with pytest.raises(CorruptBlockError, match="manifest"):
            client.restore(Restore(PLAN, 2, str(tmp_path), [file]), 20)
    path.unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        client.restore(Restore(PLAN, 2, str(tmp_path), [file]), 20)
    path.write_bytes(good)
    assert len(client.restore(Restore(PLAN, 2, str(tmp_path), [file]), 20).blocks) == 1


def test_a_full_disk_fails_before_the_commit_and_a_retry_works(
    agent: AgentDescriptor, client: AgentClient, tmp_path: Path
) -> None:
    head = write(agent, 0, [0])
    with pytest.raises(CheckpointError, match="cannot be written"):
        client.checkpoint(Checkpoint(0, [head.arena_offset], PLAN, 1, "/dev/full", "0.arrow", False), 20)
    store(client, tmp_path, 0, [head.arena_offset])
    assert len(client.commit(0, [head.arena_offset], PLAN, 1).blocks) == 1


def test_a_restore_without_room_leaves_nothing_half_done(
    agent: AgentDescriptor,
    client: AgentClient,
    secret: bytes,
    request_agent: Callable[..., AgentRequest],
    tmp_path: Path,
) -> None:
    file = store(client, tmp_path, 0, [write(agent, 0, [0], keys=range(100_000)).arena_offset])
    jvm = subprocess.Popen(["sleep", "600"])
    try:
        small = ensure(request_agent(jvm_pid=jvm.pid, arena_bytes=2 << 20))
        with AgentClient(small, QUERY, query_token(secret, QUERY), secret=secret) as other:
            with pytest.raises(ArenaFullError, match=r"spark\.slash\.arena\.size"):
                other.restore(Restore(PLAN, 2, str(tmp_path), [file]), 20)
            assert attach(small).blocks() == []
    finally:
        jvm.kill()
        jvm.wait()


def test_nobody_waits_for_the_bytes_of_a_restore(
    secret: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, locked = str(tmp_path / "blocks"), list[bool]()
    with serving(secret, tmp_path) as agent:
        state, files = agent.state, Checkpointer(agent.state)
        offset = write(agent.descriptor, 0, [0]).arena_offset
        written = files.checkpoint(QUERY, Checkpoint(0, [offset], PLAN, 1, folder, "0.arrow", False))
        state.commit(QUERY, Commit(0, [offset], PLAN, 1))
        file = ["0.arrow", written["bytes"], written["crc"]]

        def watched(*given: Any) -> bytes:
            locked.append(state.lock.locked())
            return adopt(*given)

        monkeypatch.setattr("pyslash.agent.checkpoint.adopt", watched)
        files.restore(QUERY, Restore(PLAN, 2, folder, [file]))
        files.take(QUERY, Take(3, PLAN, 2, folder, [file]))
    assert locked == [False, False]


def test_a_restore_that_is_asked_for_twice_at_once_restores_each_block_once(
    secret: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that had no answer in time asks again, while the first call is still at it."""
    folder = str(tmp_path / "blocks")
    with serving(secret, tmp_path) as agent:
        state, files = agent.state, Checkpointer(agent.state)
        offsets = [write(agent.descriptor, 0, [0], attempt=attempt).arena_offset for attempt in range(3)]
        written = files.checkpoint(QUERY, Checkpoint(0, offsets, PLAN, 1, folder, "0.arrow", False))
        state.commit(QUERY, Commit(0, offsets, PLAN, 1))
        asked = Restore(PLAN, 2, folder, [["0.arrow", written["bytes"], written["crc"]]])

        def panes() -> list[tuple[int, int]]:
            live = state.queries[QUERY].own.live.values()
            return sorted((pane, count) for block in live for pane, count, _ in block.panes)

        before = panes()
        calls = list[int]()

        def meanwhile(*given: Any) -> bytes:
            calls.append(len(calls))
            if len(calls) == 2:  # at the second block of the first call
                files.restore(QUERY, asked)
            return adopt(*given)

        monkeypatch.setattr("pyslash.agent.checkpoint.adopt", meanwhile)
        files.restore(QUERY, asked)
        assert panes() == before
        assert len(before) == 3


def test_names_of_files_beside_epochs_are_not_kept_for_good() -> None:
    state = QueryState(_native.Plan(PLAN), PLAN, Run(1))
    for number in range(1000):
        state.claim(Run(1), f"{number}-1.arrow")
    assert len(state.claimed) <= 256
    with pytest.raises(InvalidRequestError, match="asked for before"):
        state.claim(Run(1), "999-1.arrow")


def test_a_restore_has_no_whole_file_in_memory(secret: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, allocated = str(tmp_path / "blocks"), list[int]()
    with serving(secret, tmp_path) as agent:
        state, files = agent.state, Checkpointer(agent.state)
        offsets = [
            write(agent.descriptor, 0, [0], keys=range(10_000), attempt=attempt).arena_offset for attempt in range(8)
        ]
        written = files.checkpoint(QUERY, Checkpoint(0, offsets, PLAN, 1, folder, "0.arrow", False))
        state.commit(QUERY, Commit(0, offsets, PLAN, 1))
        before = pa.total_allocated_bytes()

        def watched(*given: Any) -> bytes:
            allocated.append(pa.total_allocated_bytes() - before)
            return adopt(*given)

        monkeypatch.setattr("pyslash.agent.checkpoint.adopt", watched)
        files.restore(QUERY, Restore(PLAN, 2, folder, [["0.arrow", written["bytes"], written["crc"]]]))
    assert len(allocated) == 8
    assert max(allocated) < written["bytes"] // 2
