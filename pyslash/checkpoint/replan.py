"""State of one query as state of another with other aggregates: what both keep is carried over, the rest begins anew.

A block's states are columns, so that this is a matter of which buffers a segment has (docs/block-format.md). An
aggregate that is added has seen no row yet: to it, every row of the groups that are there was null.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyslash._native import Head, Plan, crc32c
from pyslash.block_head import ENTRY, FINGERPRINT, HEAD_LENGTH, HEADER_BYTES, LENGTH, PLAN_LENGTH, rechecked
from pyslash.checkpoint.block_file import StoredBlock
from pyslash.checkpoint.nothing import nothing_seen
from pyslash.errors import PlanMismatchError
from pyslash.plan.identity import Input, PlanIdentity, differences

_ALIGNED = 64


@dataclass(frozen=True)
class Column:
    """A key or state of a segment: what it is, of which input column, and how many buffers it has."""

    kind: str
    input: str
    buffers: int


def layout(plan: PlanIdentity) -> list[Column]:
    """The columns of a segment, in order."""
    keys = [Column(f"key {place}", key.sql, 3 if _is_variable(key.type) else 2) for place, key in enumerate(plan.keys)]
    states = {("rows", ""): Column("rows", "", 1)}
    for aggregate, column in _aggregated(plan):
        if column is None:
            continue
        if column.nullable:
            states.setdefault(("nulls", column.sql), Column("nulls", column.sql, 1))
        if aggregate in ("sum", "avg"):
            added = Column("add", column.sql, 1 if column.type.startswith("float") else 2)
            states.setdefault(("add", column.sql), added)
        elif aggregate in ("min", "max"):
            extreme = Column(aggregate, column.sql, 3 if _is_variable(column.type) else 1)
            states.setdefault((aggregate, column.sql), extreme)
    return [*keys, *states.values()]


def check(before: PlanIdentity, now: PlanIdentity) -> None:
    """Passes if state of one query can become state of the other.

    Raises:
        PlanMismatchError: it cannot; the message says which difference is in the way.
    """
    obstacles = [line for line in differences(before, now) if line.startswith(("the window", "key", "a key"))]
    held = {column.sql: column for _, column in _aggregated(before) if column is not None}
    kept = {(column.kind, column.input) for column in layout(before)}
    for plan in (before, now):
        names = [column.sql for column in plan.inputs]
        obstacles += [f"two input columns are both {name}" for name in sorted({n for n in names if names.count(n) > 1})]
    for aggregate, column in _aggregated(now):
        if column is None:
            continue
        old = held.get(column.sql)
        state = {"sum": "add", "avg": "add"}.get(aggregate, aggregate)
        if old is None and not column.nullable:
            obstacles.append(f"{aggregate}({column.sql}) is new, and {column.sql} is never null: make it nullable")
        elif old is not None and old.type != column.type:
            obstacles.append(f"{column.sql}: {old.type} -> {column.type}")
        elif old is not None and old.nullable and not column.nullable:
            obstacles.append(f"{column.sql} could be null, and is never null now")
        elif old is not None and state != "count" and (state, column.sql) not in kept:
            obstacles.append(
                f"{aggregate}({column.sql}) is new, but {column.sql} has a history with other aggregates: write it "
                "as an expression of its own"
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
    text = now.text.encode()
    at = head_length = _up(HEADER_BYTES + ENTRY.size * len(block.segments) + len(text))
    entries, body = [], bytearray()
    for index, (segment, data) in enumerate(block.segments):
        written = _segment(memoryview(data), segment.groups, before, now)
        entry = list(ENTRY.unpack_from(block.head, HEADER_BYTES + index * ENTRY.size))
        entry[4:7] = [crc32c(written), at, len(written)]
        entries.append(ENTRY.pack(*entry))
        body += written
        at += len(written)
    head = bytearray(b"".join([block.head[:HEADER_BYTES], *entries, text]).ljust(head_length, b"\0"))
    for (place, form), value in (
        (HEAD_LENGTH, head_length),
        (FINGERPRINT, Plan(now.text).fingerprint),
        (LENGTH, at),
        (PLAN_LENGTH, len(text)),
    ):
        form.pack_into(head, place, value)
    checked = rechecked(head)
    Head(checked)
    return checked + bytes(body)


def _segment(data: memoryview, groups: int, before: PlanIdentity, now: PlanIdentity) -> bytes:
    held = _buffers(data, layout(before))
    known = {column.sql for _, column in _aggregated(before) if column is not None}
    types = {column.sql: column.type for column in now.inputs}
    buffers: list[Any] = []
    for column in layout(now):
        if (column.kind, column.input) in held:
            buffers += held[column.kind, column.input]
        elif column.kind == "nulls":
            # A column that could not be null had no null; of one that is new, each row so far counts as one.
            buffers.append(b"" if column.input in known else held["rows", ""][0])
        elif column.kind == "add":
            buffers += [b""] * column.buffers
        else:
            buffers += nothing_seen(column.kind, types[column.input], groups)
    return _joined(buffers)


def _buffers(data: memoryview, columns: Sequence[Column]) -> dict[tuple[str, str], list[memoryview]]:
    total = sum(column.buffers for column in columns)
    lengths = iter(struct.unpack_from(f"<{total}Q", data))
    at, found = _up(8 * total), {}
    for column in columns:
        own = []
        for _ in range(column.buffers):
            length = next(lengths)
            own.append(data[at : at + length])
            at += _up(length)
        found[column.kind, column.input] = own
    return found


def _joined(buffers: Sequence[Any]) -> bytes:
    lengths = struct.pack(f"<{len(buffers)}Q", *map(len, buffers))
    return b"".join(bytes(piece).ljust(_up(len(piece)), b"\0") for piece in (lengths, *buffers))


def _aggregated(plan: PlanIdentity) -> list[tuple[str, Input | None]]:
    columns = {column.sql: column for column in plan.inputs}
    return [(one.function, columns.get(one.input)) for one in plan.aggregates]


def _is_variable(kind: str) -> bool:
    return kind in ("string", "binary")


def _up(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
