"""`Arena` from Python; its inner workings are tested in native/tests/arena_test.cpp."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from pyslash import _native, errors
from tests.native.blocks import INCARNATION, QUERY, new_arena, sealed_rows
from tests.native.model import Query

COUNTS = Query(10, 10, 0, (("int64", True),), (1,), (("count", None),))


def test_a_peer_sees_the_same_memory() -> None:
    """Through any descriptor of the same file, which need not stay open."""
    handle = os.memfd_create("pyslash-test")
    mine = _native.Arena.create(handle, 4 << 20, INCARNATION)
    theirs = _native.Arena.attach(handle, INCARNATION)
    os.close(handle)
    head = _native.Head(sealed_rows(COUNTS, theirs, [(1, 1)]))
    assert mine.blocks() == theirs.blocks() == [(head.arena_offset, head.length, 2, os.getpid(), QUERY, 0)]
    assert mine.view(head.arena_offset, head.length) == theirs.view(head.arena_offset, head.length)
    assert mine.used_bytes == (head.length + 63) // 64 * 64
    assert (mine.size, mine.incarnation) == (4 << 20, INCARNATION)
    assert 0 < mine.capacity < mine.size


def test_commit_keeps_winners_and_drops_the_rest(arena: _native.Arena) -> None:
    """Of this query, up to this epoch."""
    winner, loser, later = (
        _native.Head(sealed_rows(COUNTS, arena, [(1, 1)], epoch)).arena_offset for epoch in (1, 1, 2)
    )
    assert arena.commit(QUERY, 1, [winner]) == 1
    assert [(block[0], block[2]) for block in arena.blocks()] == [(winner, 3), (later, 2)]
    with pytest.raises(errors.InvalidInputError, match="no block at offset"):
        arena.commit(QUERY, 2, [loser])
    arena.free(winner)
    assert arena.reclaim_dead() == 0
    assert [block[0] for block in arena.blocks()] == [later]


def test_a_view_outlives_the_arena() -> None:
    """It is read-only, and other libraries share it without a copy."""
    with new_arena() as arena:
        head = _native.Head(sealed_rows(COUNTS, arena, [(1, 1)]))
        view = arena.view(head.arena_offset, head.length)
    assert arena.closed
    assert view.readonly
    assert len(view) == head.length
    buffer = pa.py_buffer(view)
    del view
    assert _native.Head(buffer).groups == 1
    arena.close()
    with pytest.raises(errors.InvalidInputError, match="closed"):
        arena.view(0, 1)
    assert "closed" in repr(arena)


def test_a_full_arena_changes_nothing() -> None:
    """The accumulator can be sealed into another one."""
    plan = _native.Plan(COUNTS.text)
    accumulator = _native.Accumulator(plan, -100)
    rows = pa.record_batch(
        [pa.array([0] * 100_000).cast(pa.timestamp("us", "UTC")), pa.array(range(100_000))], names="tk"
    )
    accumulator.add(rows)
    with new_arena(2 << 20) as small, new_arena(16 << 20) as large:
        with pytest.raises(errors.ArenaFullError, match=r"spark\.slash\.arena\.size"):
            accumulator.seal(small, QUERY, 0, 0)
        assert small.blocks() == []
        assert _native.Head(accumulator.seal(large, QUERY, 0, 0)).groups == 100_000


def test_what_is_no_arena_is_refused(arena: _native.Arena) -> None:
    """The class of the error tells a lost peer from a wrong call."""
    handle = os.memfd_create("pyslash-test")
    try:
        with pytest.raises(errors.StaleIncarnationError):
            _native.Arena.attach(handle, INCARNATION)
        with pytest.raises(errors.InvalidInputError, match="15 bytes"):
            _native.Arena.create(handle, 4 << 20, b"i" * 15)
        with pytest.raises(errors.InvalidInputError, match="too small"):
            _native.Arena.create(handle, 4096, INCARNATION)
        _native.Arena.create(handle, 4 << 20, INCARNATION)
        with pytest.raises(errors.StaleIncarnationError, match="another incarnation"):
            _native.Arena.attach(handle, b"j" * 16)
    finally:
        os.close(handle)
    with pytest.raises(errors.InvalidInputError, match="outside"):
        arena.view(arena.size, 1)


def test_a_block_is_allocated_and_published() -> None:
    fd = os.memfd_create("arena")
    arena = _native.Arena.create(fd, 4 << 20, bytes(range(16)))
    query = bytes(16)
    offset = arena.allocate(1000, query, 7)
    assert arena.blocks() == [(offset, 1000, 1, os.getpid(), query, 7)]
    arena.publish(offset)
    assert arena.blocks()[0][2] == 2
    with pytest.raises(errors.ArenaFullError):
        arena.allocate(8 << 20, query, 7)
    with pytest.raises(errors.InvalidInputError):
        arena.publish(offset + 64)
    os.close(fd)
