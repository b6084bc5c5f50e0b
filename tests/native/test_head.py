"""`Head`: reading what a block is, and refusing what is none."""

from __future__ import annotations

import struct

import pytest

from pyslash import _native, errors
from tests.native.blocks import FOREVER, INCARNATION, PREFIXES, QUERY, sealed_rows
from tests.native.model import Query

CRC_AT = 128  # of the head, in its header
PREFIX_BITS_AT = 192 + 12  # of the first segment
QUERY_OF_COUNTS = Query(10, 5, 0, (("int64", True),), (1,), (("count", None),))


def test_a_receipt_says_what_went_in(arena: _native.Arena) -> None:
    """And the same bytes stand at the start of the block."""
    raw = sealed_rows(QUERY_OF_COUNTS, arena, [(1, 1), (2, 1), (7, 2), (None, 3), (-30, 4)], epoch=3, watermark=-10)
    head = _native.Head(raw)
    assert (head.query, head.incarnation, head.epoch, head.attempt) == (QUERY, INCARNATION, 3, 0)
    assert (head.groups, head.rows, head.late_rows, head.max_event_time) == (2, 5, 1, 7)
    assert (head.plan_text, head.fingerprint) == (QUERY_OF_COUNTS.text, _native.Plan(QUERY_OF_COUNTS.text).fingerprint)
    assert [(pane, groups) for pane, groups, _ in head.panes] == [(0, 1), (5, 1)]
    assert head.head_length == len(raw)
    assert head.length == head.head_length + sum(size for _, _, size in head.panes)
    block = arena.view(head.arena_offset, head.length)
    assert bytes(block[: len(raw)]) == raw
    assert _native.Head(block).panes == head.panes


def test_ranges_are_what_a_reader_needs(arena: _native.Arena) -> None:
    """Adjacent segments are one read; panes and prefixes select."""
    raw = sealed_rows(QUERY_OF_COUNTS, arena, [(time, key) for time in range(0, 40, 5) for key in range(20_000)])
    head = _native.Head(raw)
    assert head.ranges(*FOREVER, 0, PREFIXES) == [(head.head_length, head.length - head.head_length)]
    by_pane = [head.ranges(pane, pane + 1, 0, PREFIXES) for pane, _, _ in head.panes]
    assert [length for [(_, length)] in by_pane] == [size for _, _, size in head.panes]
    assert head.ranges(1, 5, 0, PREFIXES) == []
    one_prefix = head.ranges(*FOREVER, 0, 1)
    assert len(one_prefix) == 8
    assert sum(length for _, length in one_prefix) < head.length / 2
    pieces = [head.ranges(5, 10, i << 28, i + 1 << 28) for i in range(16)]
    assert {offset for [(offset, _)] in pieces} <= set(range(*_span(by_pane[1])))


def _span(ranges: list[tuple[int, int]]) -> tuple[int, int]:
    [(offset, length)] = ranges
    return offset, offset + length


def test_a_segment_may_be_of_one_prefix(arena: _native.Arena) -> None:
    """Of all 32 bits, which no build writes."""
    head = bytearray(sealed_rows(QUERY_OF_COUNTS, arena, [(1, 1)]))
    struct.pack_into("<I", head, PREFIX_BITS_AT, 32)
    struct.pack_into("<I", head, CRC_AT, 0)
    struct.pack_into("<I", head, CRC_AT, _native.crc32c(head))
    assert _native.Head(head).prefix_ranges == PREFIXES


@pytest.mark.parametrize(("rows", "watermark", "late"), [([], -100, 0), ([(1, 1), (9, 2)], 20, 2), ([(None, 1)], 0, 0)])
def test_nothing_to_write_is_a_mere_receipt(
    arena: _native.Arena, rows: list[tuple[int | None, int]], watermark: int, late: int
) -> None:
    """No rows, only late ones, or only such without a time: nothing is allocated."""
    head = _native.Head(sealed_rows(QUERY_OF_COUNTS, arena, list(rows), watermark=watermark))
    assert (head.length, head.groups, head.rows, head.late_rows, head.panes) == (0, 0, len(rows), late, [])
    assert head.ranges(*FOREVER, 0, PREFIXES) == []
    assert arena.blocks() == []


def test_every_flipped_bit_and_every_cut_is_noticed(arena: _native.Arena) -> None:
    """A head is data or an error, never something else."""
    raw = sealed_rows(QUERY_OF_COUNTS, arena, [(time, time) for time in range(30)])
    for bit in range(len(raw) * 8):
        broken = bytearray(raw)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(errors.CorruptBlockError):
            _native.Head(broken)
    for length in range(len(raw)):
        with pytest.raises(errors.CorruptBlockError):
            _native.Head(raw[:length])


def test_only_bytes_are_read() -> None:
    """A text is no buffer."""
    with pytest.raises(TypeError):
        _native.Head("PYSLASH")
