"""`compact`: many blocks into one that says the same."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from pyslash import _native, errors
from pyslash.units import ArenaOffset
from tests.native.arrow import to_values
from tests.native.blocks import LONG_AGO, QUERY, merged, new_arena, sealed, sealed_rows
from tests.native.model import Query
from tests.native.strategies import Case, cases

COUNTS = Query(10, 5, 0, (("int64", True),), (1,), (("count", None),))


def offsets_of(arena: _native.Arena) -> list[int]:
    """Of all blocks."""
    return [block[0] for block in arena.blocks()]


@settings(max_examples=150, deadline=None)
@given(cases())
def test_results_do_not_change(case: Case) -> None:
    """Neither from one compacted block, nor when that one is compacted once more."""
    plan = _native.Plan(case.query.text)
    with new_arena(8 << 20) as arena:
        blocks = [sealed_rows(case.query, arena, rows, i, case.watermark) for i, rows in enumerate(case.blocks)]
        before = Counter(to_values(merged(case.query, arena, blocks, case.windows)))
        inputs = offsets_of(arena)
        once = _native.compact(plan, arena, inputs, LONG_AGO, QUERY, 9)
        assert bool(once) == bool(inputs)
        if not once:
            return
        twice = _native.compact(plan, arena, [_native.Head(once).arena_offset], LONG_AGO, QUERY, 10)
        for raw in (once, twice):
            found = []
            for prefixes in pairwise(case.cuts):
                found += to_values(merged(case.query, arena, [raw], case.windows, prefixes))
            assert Counter(found) == before
        heads = [_native.Head(raw) for raw in blocks]
        held = [head for head in heads if head.length]
        head = _native.Head(twice)
        assert (head.rows, head.late_rows) == (sum(h.rows for h in held), sum(h.late_rows for h in held))
        assert (head.epoch, head.query, head.attempt) == (10, QUERY, 0)
        assert head.groups == sum(groups for _, groups, _ in head.panes)


def test_many_small_blocks_become_well_cut_segments(arena: _native.Arena) -> None:
    """60 blocks that share 100 k keys: as many segments as readers of few prefixes want."""
    query = Query(10, 10, 0, (("int64", False),), (1,), (("count", None),))
    plan = _native.Plan(query.text)
    random = np.random.default_rng(7)
    blocks = []
    for epoch in range(60):
        keys = random.integers(0, 100_000, 5_000)
        times = pa.array(np.full(5_000, 3), pa.int64()).cast(pa.timestamp("us", "UTC"))
        blocks.append(sealed(plan, arena, [pa.record_batch([times, pa.array(keys)], names=["t", "k"])], epoch))
    raw = _native.compact(plan, arena, offsets_of(arena), LONG_AGO, QUERY, 60)
    head = _native.Head(raw)
    widest = max(length for _, length in head.ranges(0, 10, 0, 1))
    assert head.groups * 16 / 128 < widest < head.groups * 16 / 32
    rows = Counter(to_values(merged(query, arena, blocks, [0])))
    assert Counter(to_values(merged(query, arena, [raw], [0]))) == rows
    assert sum(row[-1] for row in rows) == 300_000


def test_dead_panes_are_left_out(arena: _native.Arena) -> None:
    """Windows of live panes stay as they were; a block of dead ones only becomes none."""
    plan = _native.Plan(COUNTS.text)
    blocks = [sealed_rows(COUNTS, arena, [(time, time % 3) for time in range(100)], epoch) for epoch in range(3)]
    inputs = offsets_of(arena)
    head = _native.Head(raw := _native.compact(plan, arena, inputs, 50, QUERY, 3))
    assert [pane for pane, _, _ in head.panes] == list(range(50, 100, 5))
    assert head.rows == 300
    assert head.max_event_time == 99
    live = list(range(50, 95, 5))
    assert (
        merged(COUNTS, arena, [raw], live).sort_by("key0").equals(merged(COUNTS, arena, blocks, live).sort_by("key0"))
    )
    used = arena.used_bytes
    assert _native.compact(plan, arena, inputs, 100, QUERY, 3) == b""
    assert _native.compact(plan, arena, [], LONG_AGO, QUERY, 3) == b""
    assert arena.used_bytes == used


def test_the_result_waits_as_a_published_block(arena: _native.Arena) -> None:
    """It is numbered beyond all epochs, survives their commits, and takes the inputs' place when it is committed."""
    plan = _native.Plan(COUNTS.text)
    sealed_rows(COUNTS, arena, [(1, 1)], 0)
    inputs = offsets_of(arena)
    arena.commit(QUERY, 0, inputs)
    head = _native.Head(_native.compact(plan, arena, inputs, LONG_AGO, QUERY, 2**63 - 1))
    assert arena.commit(QUERY, 5, []) == 0
    assert arena.commit(QUERY, 6, [head.arena_offset]) == 0
    assert [block[2] for block in arena.blocks()] == [3, 3]


def test_what_cannot_be_compacted_is_refused(arena: _native.Arena) -> None:
    """The arena is as before then."""
    plan = _native.Plan(COUNTS.text)
    raw = sealed_rows(COUNTS, arena, [(i, i) for i in range(100)])
    used = arena.used_bytes
    other = _native.Plan(COUNTS.text.replace("window 10 5", "window 10 10"))
    with pytest.raises(errors.InvalidPlanError, match="fingerprint"):
        _native.compact(other, arena, offsets_of(arena), LONG_AGO, QUERY, 1)
    with pytest.raises(errors.InvalidInputError, match="no published block"):
        _native.compact(plan, arena, [ArenaOffset(64)], LONG_AGO, QUERY, 1)
    with new_arena(arena.size - arena.capacity + _native.Head(raw).length + 64) as full:
        sealed_rows(COUNTS, full, [(i, i) for i in range(100)])
        with pytest.raises(errors.ArenaFullError, match=r"spark\.slash\.arena\.size"):
            _native.compact(plan, full, offsets_of(full), LONG_AGO, QUERY, 1)
        assert len(full.blocks()) == 1
    assert arena.used_bytes == used
