"""Block files: what was written comes back, and no changed bit does."""

from __future__ import annotations

import os
from contextlib import suppress

import pyarrow as pa
import pytest

from pyslash import _native
from pyslash.errors import CorruptBlockError
from pyslash.state.files.block_file import decode, encode, opened
from pyslash.state.files.directory import BlockDirectory, BlockFile
from tests.agent.blocks import PLAN, QUERY, rows

FILE_BYTES = BLOCK_BYTES = 4096


def block(keys: int) -> memoryview:
    """A whole block of this many keys, in one pane."""
    fd = os.memfd_create("arena")
    try:
        arena = _native.Arena.create(fd, 8 << 20, bytes(16))
        accumulator = _native.Accumulator(_native.Plan(PLAN), -(1 << 62))
        accumulator.add(rows([0], range(keys)))
        head = _native.Head(accumulator.seal(arena, QUERY, 0, 0))
        return arena.view(head.arena_offset, head.length)
    finally:
        os.close(fd)


def test_segments_come_back_byte_for_byte() -> None:
    source = block(50_000)
    (stored,) = decode(encode(PLAN, [source]), "file")
    assert stored.head == bytes(source[: len(stored.head)])
    assert len(stored.segments) > 1
    for segment, data in stored.segments:
        assert bytes(data) == bytes(source[segment.offset : segment.offset + segment.length])


def test_every_single_bit_flip_of_a_4_kib_file_is_refused(tmp_path: object) -> None:
    data = bytearray(encode(PLAN, [block(32)]))
    data += bytes(-len(data) % FILE_BYTES)
    data = data[:FILE_BYTES] if len(data) > FILE_BYTES else data
    assert len(data) == FILE_BYTES
    folder = BlockDirectory(str(tmp_path))
    file = BlockFile("0.arrow", *folder.write("0.arrow", lambda file: file.write(bytes(data))), 0, "", False)
    assert folder.read(file).size == FILE_BYTES
    path = f"{tmp_path}/0.arrow"
    refused = 0
    handle = os.open(path, os.O_RDWR)
    try:
        for bit in range(8 * FILE_BYTES):
            at, was = bit // 8, data[bit // 8]
            os.pwrite(handle, bytes([was ^ (1 << bit % 8)]), at)
            with pytest.raises(CorruptBlockError):
                folder.read(file)
            refused += 1
            os.pwrite(handle, bytes([was]), at)
    finally:
        os.close(handle)
    assert refused == 32_768


def test_every_single_bit_flip_of_a_4_kib_block_is_refused() -> None:
    source = next(bytes(found) for keys in range(1, 300) if len(found := block(keys)) == BLOCK_BYTES)
    plan, refused = _native.Plan(PLAN), 0

    def read(data: bytearray) -> None:
        """What an agent does that commits a block, and a merge that reads it."""
        head = _native.Head(data)
        merger = _native.Merger(plan, [0])
        for offset, length in head.ranges(-(1 << 62), 1 << 62, 0, 1 << 32):
            merger.add(head, offset, bytes(data[offset : offset + length]))

    read(bytearray(source))
    for bit in range(8 * BLOCK_BYTES):
        changed = bytearray(source)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBlockError):
            read(changed)
        refused += 1
    assert refused == 32_768


def test_a_changed_segment_is_found_without_the_manifest() -> None:
    good = bytes(encode(PLAN, [block(32)]))
    (stored,) = decode(pa.py_buffer(good), "file")
    at = good.index(bytes(stored.segments[0][1])) + 100
    with pytest.raises(CorruptBlockError, match="CRC32C"):
        decode(pa.py_buffer(good[:at] + bytes([good[at] ^ 8]) + good[at + 1 :]), "file")


def test_segments_lie_within_a_file_that_has_changed_or_are_refused() -> None:
    """What merges a few of them looks at no checksum of the whole file."""
    good, opens = bytes(encode(PLAN, [block(32)])), 0
    for at in range(len(good)):
        for flip in (1, 0x80):
            data = pa.py_buffer(good[:at] + bytes([good[at] ^ flip]) + good[at + 1 :])
            with suppress(CorruptBlockError):
                for stored in opened(data, "file"):
                    places = [(value.address - data.address, value.size) for _, value in stored.segments]
                    assert all(0 <= place <= data.size - size for place, size in places)
                    opens += 1
    assert 0 < opens < 2 * len(good)


def test_segments_of_another_type_are_refused() -> None:
    with pa.ipc.open_file(pa.py_buffer(bytes(encode(PLAN, [block(32)])))) as good:
        table = good.read_all()
    at = table.schema.get_field_index("segment")
    changed = table.set_column(at, "segment", table.column(at).cast(pa.binary()))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, changed.schema) as file:
        file.write_table(changed)
    with pytest.raises(CorruptBlockError, match="of binary"):
        decode(sink.getvalue(), "file")


@pytest.mark.parametrize("data", [b"", b"ARROW1", b"x" * 1000])
def test_what_is_no_block_file_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptBlockError, match="no block file"):
        decode(pa.py_buffer(data), "file")
