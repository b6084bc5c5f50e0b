"""Rewrites the state of one query as that of another with other aggregates: shared aggregates keep theirs, others start
empty.

The states of a block are columns, so only the buffers of a segment change (docs/block-format.md). An added aggregate
has seen no row yet: for it, every earlier row of a group was null.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyslash._native import Head, Plan, crc32c
from pyslash.block_head import ENTRY, FINGERPRINT, HEAD_LENGTH, HEADER_BYTES, LENGTH, PLAN_LENGTH, rechecked
from pyslash.checkpoint.block_file import StoredBlock
from pyslash.errors import PlanMismatchError
from pyslash.plan.identity import Input, PlanIdentity, differences

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


def check(before: PlanIdentity, now: PlanIdentity) -> None:
    """Passes if state of one query can become state of the other.

    Raises:
        PlanMismatchError: it cannot; the message says which difference is in the way.
    """
    obstacles = [
        line
        for line in differences(before, now)
        if line.startswith(("the operator", "the window", "the join", "key", "a key"))
    ]
    if _has_buffers(before) != _has_buffers(now):
        obstacles.append(
            "aggregates in buffers of Spark were added or dropped, beside which rows are counted otherwise"
        )
    held = {column.sql: column for one in before.aggregates for column in one.inputs}
    kept = {column.name for column in _states(before)}
    for plan in (before, now):
        names = [column.sql for column in plan.inputs]
        obstacles += [f"two input columns are both {name}" for name in sorted({n for n in names if names.count(n) > 1})]
    states = _states(now)
    for one, needs in zip(now.aggregates, Plan(now.text).needs, strict=True):
        for column in one.inputs:
            obstacles += _obstacles(one.sql, held.get(column.sql), column)
        new = [states[place] for place in needs if states[place].kind != "nulls" and states[place].name not in kept]
        for known in {name for state in new for name in state.inputs if name in held}:
            obstacles.append(
                f"{one.sql} is new, but {known} has a history with other aggregates: write it as an expression of its "
                "own"
            )
    if obstacles:
        listed = "\n  ".join(dict.fromkeys(obstacles))
        raise PlanMismatchError(
            f"the checkpoint's state cannot become state of this query:\n  {listed}\nGive the query a new "
            "checkpointLocation."
        )


def replanned(block: StoredBlock, before: PlanIdentity, now: PlanIdentity) -> bytes:
    """The whole block as one of the other query.

    Raises:
        PlanMismatchError: as `check`.
    """
    check(before, now)
    return rewritten(
        block, now.text, [_segment(memoryview(data), one.groups, before, now) for one, data in block.segments]
    )


def rewritten(block: StoredBlock, plan: str, segments: Sequence[bytes]) -> bytes:
    """The whole block as one of this plan, with these segments of the same groups in the place of its own."""
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
    for (place, form), value in (
        (HEAD_LENGTH, head_length),
        (FINGERPRINT, Plan(plan).fingerprint),
        (LENGTH, at),
        (PLAN_LENGTH, len(text)),
    ):
        form.pack_into(head, place, value)
    checked = rechecked(head)
    Head(checked)
    return checked + bytes(body)


def _has_buffers(plan: PlanIdentity) -> bool:
    return any(one.function == "collect" for one in plan.aggregates)


def _obstacles(aggregate: str, old: Input | None, column: Input) -> list[str]:
    """Why an aggregate cannot continue with this input."""
    if old is None:
        new = f"{aggregate} is new, and {column.sql} is never null: make it nullable"
        return [] if column.nullable else [new]
    if old.type != column.type:
        return [f"{column.sql}: {old.type} -> {column.type}"]
    if old.nullable and not column.nullable:
        return [f"{column.sql} could be null, and is never null now"]
    return []


def _segment(data: memoryview, groups: int, before: PlanIdentity, now: PlanIdentity) -> bytes:
    held = buffers_of(data, layout(before))
    known = {column.sql for one in before.aggregates for column in one.inputs}
    plan = Plan(now.text)
    buffers: list[Any] = []
    for place, column in enumerate(layout(now), -len(now.keys)):
        if column.name in held:
            buffers += held[column.name]
        elif column.kind == "nulls":
            # A column that could not be null had no null; of one that is new, each row so far counts as one.
            buffers.append(b"" if column.inputs[0] in known else held["rows", ()][0])
        else:
            buffers += plan.nothing_seen(place, groups)
    return joined(buffers)


def _states(plan: PlanIdentity) -> list[Column]:
    names = [plan.time, *(column.sql for column in plan.inputs)]
    return [
        Column(kind, tuple(names[column] for column in columns), buffers)
        for kind, columns, buffers in Plan(plan.text).states
    ]


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
