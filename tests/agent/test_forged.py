"""Blocks whose checks pass and whose values lie: a CRC is not a MAC."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pyslash import _native
from pyslash.errors import CorruptBlockError, InvalidRequestError
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.messages import Checkpoint, Restore
from pyslash.state.files import block_file
from pyslash.state.files.block_head import ENTRY, HEADER_BYTES, IDENTITY, LENGTH, rechecked
from pyslash.state.files.directory import BlockDirectory
from tests.agent.blocks import PLAN, QUERY, attach, write

MIB = 1 << 20
Change = Callable[[bytearray], None]


def moved_away(head: bytearray) -> None:
    """The first of the segments lies 128 MiB farther, in a block that is as much longer."""
    entry = list(ENTRY.unpack_from(head, HEADER_BYTES))
    entry[5] += 128 * MIB
    ENTRY.pack_into(head, HEADER_BYTES, *entry)
    at, form = LENGTH
    form.pack_into(head, at, form.unpack_from(head, at)[0] + 256 * MIB)


def overlapping(head: bytearray) -> None:
    """Both segments lie in the same place."""
    first = ENTRY.unpack_from(head, HEADER_BYTES)
    entry = list(ENTRY.unpack_from(head, HEADER_BYTES + ENTRY.size))
    entry[5] = first[5]
    ENTRY.pack_into(head, HEADER_BYTES + ENTRY.size, *entry)


def too_many_groups(head: bytearray) -> None:
    """A segment of more groups than it has bytes."""
    entry = list(ENTRY.unpack_from(head, HEADER_BYTES))
    entry[3] = 0xFFFFFFFF
    ENTRY.pack_into(head, HEADER_BYTES, *entry)


def forged(agent: AgentDescriptor, offset: int, length: int, change: Change) -> None:
    """Changes the head of a published block in place, as a process of the same user may."""
    with open(agent.arena_path, "r+b", buffering=0) as file:
        head = bytearray(os.pread(file.fileno(), length, offset))
        change(head)
        os.pwrite(file.fileno(), rechecked(head), offset)


@pytest.mark.parametrize("change", [moved_away, overlapping, too_many_groups])
def test_a_forged_file_is_not_restored(
    agent: AgentDescriptor, client: AgentClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    head = write(agent, 0, [0, 10])
    stored = Checkpoint(0, [head.arena_offset], PLAN, 0, str(tmp_path), "good.arrow", True)
    client.checkpoint(stored, 10)
    whole = bytes(attach(agent).view(head.arena_offset, head.length))
    before = os.stat(agent.arena_path).st_size, attach(agent).used_bytes

    def lying(block: bytes) -> bytes:
        raw = bytearray(block[: head.head_length])
        change(raw)
        return rechecked(raw)

    # The file that a forger writes: the segments as they were, under a head that lies.
    good = block_file.encode(PLAN, [whole]).to_pybytes()
    forged_file = good.replace(base64.b64encode(whole[: head.head_length]), base64.b64encode(lying(whole)))
    assert forged_file != good
    size, crc = BlockDirectory(str(tmp_path)).write("forged.arrow", lambda sink: sink.write(forged_file))
    request = Restore(PLAN, 1, str(tmp_path), [["forged.arrow", size, crc]])
    with pytest.raises(CorruptBlockError):
        client.restore(request, 10)
    assert (os.stat(agent.arena_path).st_size, attach(agent).used_bytes) == before


def test_an_arena_neither_grows_nor_shrinks(agent: AgentDescriptor) -> None:
    size = os.stat(agent.arena_path).st_size
    handle = os.open(agent.arena_path, os.O_RDWR)
    try:
        with pytest.raises(PermissionError):
            os.pwrite(handle, b"x", size + 1)
        with pytest.raises(PermissionError):
            os.ftruncate(handle, size // 2)
    finally:
        os.close(handle)
    assert os.stat(agent.arena_path).st_size == size


def test_a_head_that_names_another_place_is_not_committed(agent: AgentDescriptor, client: AgentClient) -> None:
    victim, head = write(agent, 0, [0]), write(agent, 0, [0], attempt=1)

    def elsewhere(raw: bytearray) -> None:
        at, form = IDENTITY
        fields = list(form.unpack_from(raw, at))
        fields[-1] = victim.arena_offset
        form.pack_into(raw, at, *fields)

    forged(agent, head.arena_offset, head.head_length, elsewhere)
    with pytest.raises(InvalidRequestError, match="says that it has"):
        client.commit(0, [head.arena_offset], PLAN)
    assert client.describe().blocks == 0


def test_a_compaction_of_a_forged_block_leaves_the_agent_alive(agent: AgentDescriptor, client: AgentClient) -> None:
    """Keys under each other's prefixes: the block's checks pass, and its keys are where no partition has room."""
    blocks = [write(agent, 0, [0], range(40_000), attempt=i) for i in range(9)]
    head = blocks[0]

    def others(raw: bytearray) -> None:
        first = list(ENTRY.unpack_from(raw, HEADER_BYTES))
        second = list(ENTRY.unpack_from(raw, HEADER_BYTES + ENTRY.size))
        # Each segment's bytes stay where they are, and are said to have the other one's prefixes.
        first[2], second[2] = 12, 12
        ENTRY.pack_into(raw, HEADER_BYTES, *first)
        ENTRY.pack_into(raw, HEADER_BYTES + ENTRY.size, *second)

    forged(agent, head.arena_offset, head.head_length, others)
    client.commit(0, [block.arena_offset for block in blocks], PLAN)
    arena = attach(agent)
    with pytest.raises(CorruptBlockError, match="other prefixes"):
        _native.compact(_native.Plan(PLAN), arena, [head.arena_offset], -(1 << 63), QUERY, 5)
    assert client.describe().blocks == 9
