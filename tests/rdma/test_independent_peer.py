"""The wire format is what docs/block-format.md says: a reader written by that page alone gets all groups out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pyslash import _native
from pyslash.protocol.token import query_token
from pyslash.rdma.port import Port
from tests.agent.blocks import QUERY, SECOND
from tests.rdma.independent import decode, fetch
from tests.rdma.peer import SELF
from tests.transport.in_process import serving

PLAN = """pyslash-plan 1
window 10000000 5000000 0
column string 1
column int32 0
column int64 1
column float64 1
column decimal(30,2) 1
column string 1
key 1
key 2
aggregate sum 3 1
aggregate count - 1
aggregate avg 4 1
aggregate sum 5 1
aggregate min 6 1
aggregate max 6 1
aggregate max 3 1
"""
ROWS = 600
HUGE = (1 << 63) - 1


def table() -> pa.RecordBatch:
    """Nulls in every nullable column, sums that leave 64 bits, strings of all lengths."""
    from decimal import Decimal

    rows = range(ROWS)
    return pa.record_batch(
        [
            pa.array([(row % 3) * 5 * SECOND for row in rows], pa.timestamp("us", "UTC")),
            pa.array([None if row % 7 == 0 else f"key {row % 7}" for row in rows]),
            pa.array([row % 4 - 2 for row in rows], pa.int32()),
            pa.array([None if row % 11 == 0 else HUGE - row for row in rows], pa.int64()),
            pa.array([None if row % 5 == 0 else row / 8 for row in rows], pa.float64()),
            pa.array([None if row % 13 == 0 else Decimal(row * 10**20) / 100 for row in rows], pa.decimal128(30, 2)),
            pa.array([None if row % 2 else "x" * (row % 9) + str(row) for row in rows]),
        ],
        names=list("tksvfdm"),
    )


def expected() -> dict[tuple[object, ...], dict[str, object]]:
    """The same groups by plain Python."""
    groups: dict[tuple[object, ...], dict[str, object]] = {}
    for row in table().to_pylist():
        pane = int(row["t"].timestamp()) * SECOND
        key = (pane, None if row["k"] is None else row["k"].encode(), row["s"])
        group = groups.setdefault(
            key,
            {"rows": 0, "nulls(3)": 0, "add(3)": 0, "nulls(4)": 0, "add(4)": 0.0, "nulls(5)": 0, "add(5)": 0}
            | {"nulls(6)": 0, "min(6)": None, "max(6)": None, "max(3)": -(1 << 63)},
        )
        group["rows"] += 1
        for index, name in enumerate("vfdm", 3):
            group[f"nulls({index})"] += row[name] is None
        group["add(3)"] += row["v"] or 0
        group["add(4)"] += row["f"] or 0.0
        group["add(5)"] += int((row["d"] or 0) * 100)
        group["max(3)"] = max(group["max(3)"], -(1 << 63) if row["v"] is None else row["v"])
        if row["m"] is not None:
            text = row["m"].encode()
            group["min(6)"] = text if group["min(6)"] is None else min(group["min(6)"], text)
            group["max(6)"] = text if group["max(6)"] is None else max(group["max(6)"], text)
    return groups


def sealed(arena: _native.Arena) -> _native.Head:
    accumulator = _native.Accumulator(_native.Plan(PLAN), -(1 << 62))
    accumulator.add(table())
    return _native.Head(accumulator.seal(arena, QUERY, 3, 1))


def check(block: bytes, head: _native.Head, arena: _native.Arena) -> None:
    header, groups = decode(block)
    assert groups == expected()
    assert (header["query"], header["incarnation"], header["epoch"], header["attempt"]) == (
        QUERY,
        arena.incarnation,
        3,
        1,
    )
    assert (header["arena_offset"], header["length"]) == (head.arena_offset, head.length)
    assert (header["rows"], header["late_rows"], header["max_event_time"]) == (ROWS, 0, 10 * SECOND)


def test_a_block_in_memory(tmp_path: Path) -> None:
    with serving(bytes(32), tmp_path) as agent:
        head = sealed(agent.arena)
        check(bytes(agent.arena.view(head.arena_offset, head.length)), head, agent.arena)


@pytest.mark.rdma
def test_a_block_by_rdma(port: Port, tmp_path: Path) -> None:
    secret = bytes(range(32))
    with serving(secret, tmp_path, host=SELF) as agent:
        head = sealed(agent.arena)
        proof = QUERY, query_token(secret, QUERY)
        check(fetch(agent.descriptor.to_record(), proof, head.arena_offset, head.length, port), head, agent.arena)
