"""`Merger` against the model: rows through accumulator, block and arena to the rows of windows."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings

from pyslash import _native, errors
from tests.native.arrow import read_all, to_values
from tests.native.blocks import FOREVER, PREFIXES, add_block, merged, new_arena, sealed, sealed_rows
from tests.native.model import Query, evaluate
from tests.native.strategies import Case, cases

SUMS = Query(10, 5, 0, (("int64", True), ("int64", True)), (1,), (("count", None), ("sum", 2)))


@settings(max_examples=300, deadline=None)
@given(cases())
def test_windows_hold_what_the_model_says(case: Case) -> None:
    """Any types, windows, blocks, and cuts of the prefix range: the union is the model's result, each row once."""
    with new_arena(8 << 20) as arena:
        blocks = [
            sealed_rows(case.query, arena, rows, i, case.watermark, case.large) for i, rows in enumerate(case.blocks)
        ]
        found = []
        for prefixes in pairwise(case.cuts):
            found += to_values(merged(case.query, arena, blocks, case.windows, prefixes, case.max_rows))
    expected = [group + aggregates for group, aggregates in evaluate(case.query, case.rows, case.watermark).items()]
    assert Counter(found) == Counter(expected)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_only_the_windows_asked_for_are_emitted(case: Case) -> None:
    """Every third window: panes of the others may lie around it, or between two of them."""
    windows = sorted(case.windows)[::3]
    with new_arena(8 << 20) as arena:
        blocks = [sealed_rows(case.query, arena, rows, i, case.watermark) for i, rows in enumerate(case.blocks)]
        found = to_values(merged(case.query, arena, blocks, windows, max_rows=case.max_rows))
    model = evaluate(case.query, case.rows, case.watermark)
    assert Counter(found) == Counter(group + values for group, values in model.items() if group[0] in windows)


@pytest.mark.parametrize("slide", [1_000_000, 4_000_000, 10_000_000])
@pytest.mark.parametrize("n_keys", [20, 50_000])
def test_many_groups_span_many_partitions(arena: _native.Arena, slide: int, n_keys: int) -> None:
    """400 k rows in five blocks, against Arrow's own group-by of every window."""
    size = 12_000_000
    query = Query(size, slide, 0, (("int64", False), ("int64", True)), (1,), (("count", None), ("sum", 2), ("min", 2)))
    random = np.random.default_rng(n_keys + slide)
    plan = _native.Plan(query.text)
    tables = []
    blocks = []
    for epoch in range(5):
        n = 80_000
        batch = pa.record_batch(
            [
                pa.array(
                    random.integers(epoch * 8_000_000, epoch * 8_000_000 + 20_000_000, n), pa.timestamp("us", "UTC")
                ),
                pa.array(random.integers(0, n_keys, n)),
                pa.array(random.integers(-(10**6), 10**6, n), mask=random.random(n) < 0.1),
            ],
            names=["t", "k", "v"],
        )
        tables.append(batch)
        blocks.append(sealed(plan, arena, [batch], epoch))
    rows = pa.Table.from_batches(tables)
    times = rows["t"].cast(pa.int64())
    windows = list(range(-12 * slide, 52_000_000, slide))
    found = merged(query, arena, blocks, windows, max_rows=10_000)
    starts = found["window_start"].cast(pa.int64())
    checked = 0
    for start in windows:
        inside = rows.filter(pc.and_(pc.greater_equal(times, start), pc.less(times, start + size)))
        wanted = inside.group_by("k").aggregate(
            [("v", "count", pc.CountOptions(mode="all")), ("v", "sum"), ("v", "min")]
        )
        got = found.filter(pc.equal(starts, start)).select(["key0", "agg0", "agg1", "agg2"])
        assert got.sort_by("key0").to_pydict() == dict(
            zip(got.column_names, wanted.sort_by("k").to_pydict().values(), strict=True)
        )
        checked += got.num_rows
    assert checked == found.num_rows > 0


def test_merging_consumes_nothing(arena: _native.Arena) -> None:
    """Another merger reads the same blocks."""
    blocks = [sealed_rows(SUMS, arena, [(i, i % 7, i) for i in range(100)])]
    plan = _native.Plan(SUMS.text)
    windows = list(range(-5, 100, 5))
    merger = _native.Merger(plan, windows)
    for raw in blocks:
        add_block(merger, arena, raw)
    first = read_all(merger, plan)
    assert merger.next() is None
    assert merged(SUMS, arena, blocks, windows).equals(first)


def test_a_block_may_come_in_any_pieces(arena: _native.Arena) -> None:
    """Whole, by its ranges, or with a Head instead of bytes: segments that a piece cuts are not taken."""
    raw = sealed_rows(SUMS, arena, [(i, i, i) for i in range(100)])
    head = _native.Head(raw)
    plan = _native.Plan(SUMS.text)
    block = bytes(arena.view(head.arena_offset, head.length))
    whole = _native.Merger(plan, [0, 50])
    whole.add(head, 0, block)
    cut = _native.Merger(plan, [0, 50])
    ranges = [head.ranges(pane, pane + 5, 0, PREFIXES)[0] for pane, _, _ in head.panes]
    for offset, length in ranges:
        cut.add(raw, offset, block[offset : offset + length])
        cut.add(raw, offset + 1, block[offset + 1 : offset + length])
        cut.add(raw, offset, memoryview(block)[offset : offset + length - 1])
    assert read_all(cut, plan).equals(read_all(whole, plan))


def test_no_blocks_and_no_windows_give_no_rows(arena: _native.Arena) -> None:
    """Both are usual: an idle stream, and an epoch that closes nothing."""
    plan = _native.Plan(SUMS.text)
    assert _native.Merger(plan, [0, 5]).next() is None
    idle = _native.Merger(plan, [])
    add_block(idle, arena, sealed_rows(SUMS, arena, [(1, 1, 1)]))
    assert idle.next() is None


def test_no_keys_is_one_group_a_window(arena: _native.Arena) -> None:
    """It lies in exactly one prefix."""
    query = Query(10, 10, 0, (("int64", True),), (), (("count", None), ("max", 1)))
    blocks = [sealed_rows(query, arena, [(1, 5), (2, None), (15, 7)]), sealed_rows(query, arena, [(3, 9)])]
    assert to_values(merged(query, arena, blocks, [0, 10])) == [(0, 10, 3, 9), (10, 20, 1, 7)]
    halves = [merged(query, arena, blocks, [0, 10], cut).num_rows for cut in [(0, 1 << 31), (1 << 31, PREFIXES)]]
    assert sorted(halves) == [0, 2]


def test_every_flipped_bit_of_a_segment_is_noticed(arena: _native.Arena) -> None:
    """Nothing of a corrupt piece is taken, so the sound one can be added after it."""
    raw = sealed_rows(SUMS, arena, [(i, i, i) for i in range(12)])
    head = _native.Head(raw)
    [(offset, length)] = head.ranges(*FOREVER, 0, PREFIXES)
    sound = bytes(arena.view(head.arena_offset + offset, length))
    plan = _native.Plan(SUMS.text)
    merger = _native.Merger(plan, [0, 5, 10])
    for bit in range(0, length * 8, 37):
        broken = bytearray(sound)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(errors.CorruptBlockError, match="CRC"):
            merger.add(raw, offset, broken)
    merger.add(raw, offset, sound)
    assert read_all(merger, plan).equals(merged(SUMS, arena, [raw], [0, 5, 10]))


def test_bytes_that_change_under_a_merger_are_noticed(arena: _native.Arena) -> None:
    """As when a block is freed too early and its place taken: an error, never wrong rows."""
    raw = sealed_rows(SUMS, arena, [(i, i, i) for i in range(12)])
    head = _native.Head(raw)
    [(offset, length)] = head.ranges(*FOREVER, 0, PREFIXES)
    shared = bytearray(arena.view(head.arena_offset + offset, length))
    merger = _native.Merger(_native.Plan(SUMS.text), [0, 5, 10])
    merger.add(raw, offset, shared)
    shared[-64] ^= 1
    with pytest.raises(errors.CorruptBlockError):
        merger.next()
    with pytest.raises(errors.InvalidInputError, match="no more rows"):
        merger.next()


def test_a_block_of_another_plan_is_refused(arena: _native.Arena) -> None:
    """Fingerprints differ, whatever the bytes look like."""
    raw = sealed_rows(SUMS, arena, [(1, 1, 1)])
    other = Query(10, 5, 0, (("int64", True), ("int64", False)), (1,), (("count", None), ("sum", 2)))
    merger = _native.Merger(_native.Plan(other.text), [0])
    with pytest.raises(errors.InvalidPlanError, match="fingerprint"):
        merger.add(raw, 0, b"")


def test_wrong_arguments_are_refused(arena: _native.Arena) -> None:
    """Each message says what was wrong."""
    plan = _native.Plan(SUMS.text)
    for start in (3, 1 << 62, -(1 << 63)):
        with pytest.raises(errors.InvalidInputError, match="no window starts at"):
            _native.Merger(plan, [start])
    for prefixes in ((1, 1), (2, 1), (0, PREFIXES + 1)):
        with pytest.raises(errors.InvalidInputError, match="hash prefixes"):
            _native.Merger(plan, [0], *prefixes)
    merger = _native.Merger(plan, [0])
    with pytest.raises(errors.InvalidInputError, match="max_rows"):
        merger.next(0)
    with pytest.raises(TypeError):
        merger.add("head", 0, b"")
    with pytest.raises(errors.CorruptBlockError):
        merger.add(b"head", 0, b"")
    merger.next()
    with pytest.raises(errors.InvalidInputError, match="no more blocks"):
        merger.add(sealed_rows(SUMS, arena, [(1, 1, 1)]), 0, b"")


@pytest.mark.parametrize("ansi", [True, False])
def test_an_overflow_follows_the_ansi_setting(arena: _native.Arena, ansi: bool) -> None:
    """Judged on the sum of all partials, so one that comes back into range is none."""
    query = Query(10, 10, 0, (("int64", True),), (), (("sum", 1),), ansi)
    most = 2**63 - 1
    blocks = [
        sealed_rows(query, arena, [(1, most), (2, most), (11, most), (12, 1)]),
        sealed_rows(query, arena, [(3, -most)]),
    ]
    assert to_values(merged(query, arena, blocks, [0])) == [(0, 10, most)]
    if ansi:
        with pytest.raises(errors.ArithmeticOverflowError, match=r"^\[ARITHMETIC_OVERFLOW\]"):
            merged(query, arena, blocks, [10])
    else:
        assert to_values(merged(query, arena, blocks, [10])) == [(10, 20, -(2**63))]
