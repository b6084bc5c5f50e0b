"""Rewrites blocks of one query as those of another with other aggregates, by the plan of an `Evolution`.

The states of a block are columns, so only the buffers of a segment change (docs/block-format.md): states that both
have stay, others go, and new ones have seen no row.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyslash._native import Head, Plan, crc32c
from pyslash.plan.change.evolution import fields
from pyslash.plan.change.identity import PlanIdentity
from pyslash.state.files.block_file import StoredBlock
from pyslash.state.files.block_head import ENTRY, FINGERPRINT, HEAD_LENGTH, HEADER_BYTES, LENGTH, PLAN_LENGTH, rechecked

_ALIGNED = 64


@dataclass(frozen=True)
class Column:
    """A key or state of a segment: what it is, of which input columns, and how many buffers it has."""

    kind: str
    inputs: tuple[str, ...]
    buffers: int

    @property
    def name(self) -> tuple[str, tuple[str, ...]]:
        """What tells it from the others."""
        return self.kind, self.inputs


def layout(plan: PlanIdentity) -> list[Column]:
    """The columns of a segment, in order."""
    keys = [Column(f"key {at}", (key.sql,), 3 if _is_variable(key.type) else 2) for at, key in enumerate(plan.keys)]
    return [*keys, *_states(plan)]


def replanned(block: StoredBlock, before: PlanIdentity, now: PlanIdentity) -> bytes:
    """The whole block as one of the other query; `now` is the plan of an `Evolution` of `before`."""
    return rewritten(
        block, now.text, [_segment(memoryview(data), one.groups, before, now) for one, data in block.segments]
    )


def rewritten(block: StoredBlock, plan: str, segments: Sequence[bytes]) -> bytes:
    """The whole block as one of this plan, with these segments of the same groups instead of its own."""
    text = plan.encode()
    at = head_length = _up(HEADER_BYTES + ENTRY.size * len(block.segments) + len(text))
    entries, body = [], bytearray()
    for index, written in enumerate(segments):
        entry = list(ENTRY.unpack_from(block.head, HEADER_BYTES + index * ENTRY.size))
        entry[4:7] = [crc32c(written), at, len(written)]
        entries.append(ENTRY.pack(*entry))
        body += written
        at += len(written)
    head = bytearray(b"".join([block.head[:HEADER_BYTES], *entries, text]).ljust(head_length, b"\0"))
    for (index, form), value in (
        (HEAD_LENGTH, head_length),
        (FINGERPRINT, Plan(plan).fingerprint),
        (LENGTH, at),
        (PLAN_LENGTH, len(text)),
    ):
        form.pack_into(head, index, value)
    checked = rechecked(head)
    Head(checked)
    return checked + bytes(body)


def _segment(data: memoryview, groups: int, before: PlanIdentity, now: PlanIdentity) -> bytes:
    held = buffers_of(data, layout(before))
    known = {column.name for one in before.aggregates for column in one.inputs}
    plan = Plan(now.text)
    buffers: list[Any] = []
    for index, column in enumerate(layout(now), -len(now.keys)):
        if column.name in held:
            buffers += held[column.name]
        elif column.kind == "nulls":
            # A column that could not be null had no null; of one that is new, each row so far counts as one.
            buffers.append(b"" if column.inputs[0] in known else held["rows", ()][0])
        else:
            buffers += plan.nothing_seen(index, groups)
    return joined(buffers)


def _states(plan: PlanIdentity) -> list[Column]:
    buffers = [count for _, _, count in Plan(plan.text).states]
    return [Column(*field, count) for field, count in zip(fields(plan), buffers, strict=True)]


def buffers_of(data: memoryview, columns: Sequence[Column]) -> dict[tuple[str, tuple[str, ...]], list[memoryview]]:
    total = sum(column.buffers for column in columns)
    lengths = iter(struct.unpack_from(f"<{total}Q", data))
    at, found = _up(8 * total), {}
    for column in columns:
        own = []
        for _ in range(column.buffers):
            length = next(lengths)
            own.append(data[at : at + length])
            at += _up(length)
        found[column.name] = own
    return found


def joined(buffers: Sequence[Any]) -> bytes:
    lengths = struct.pack(f"<{len(buffers)}Q", *map(len, buffers))
    return b"".join(bytes(piece).ljust(_up(len(piece)), b"\0") for piece in (lengths, *buffers))


def _is_variable(kind: str) -> bool:
    return kind in ("string", "binary")


def _up(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
