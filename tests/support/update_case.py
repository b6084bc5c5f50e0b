"""One update job and its check against Spark's own aggregation; run by the shared session and by other applications."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pyslash import _native
from pyslash.protocol.client import AgentClient
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.token import query_token
from pyslash.state.receipt import Receipt
from pyslash.transport import choose_transport

Block = tuple[AgentDescriptor, bytes]
Row = tuple[Any, ...]

BEGINNING = -(1 << 62)
WINDOW_US = 10_000_000
# By key columns: what the plan's lines after the window say, and the columns of the input.
BY_NUMBER = ("column int64 1\ncolumn int64 1\nkey 1\naggregate sum 2 0\naggregate count - 0\n", ["t", "k", "v"], "k")
BY_STRING = ("column string 1\ncolumn int64 1\nkey 1\naggregate sum 2 0\naggregate count - 0\n", ["t", "s", "v"], "s")


def plan_text(lines: str) -> str:
    """Tumbling windows of 10 s."""
    return f"pyslash-plan 1\nwindow {WINDOW_US} {WINDOW_US} 0\n{lines}"


def committed(receipts: Iterable[Receipt], plan: str, query: bytes, secret: bytes, epoch: int = 0) -> list[Block]:
    """(agent, raw head) of all live blocks after committing what the receipts name, at every agent."""
    offsets: dict[AgentDescriptor, list[int]] = {}
    for receipt in receipts:
        offsets.setdefault(receipt.agent, [])
        if receipt.head.length:
            offsets[receipt.agent].append(receipt.head.arena_offset)
    blocks = []
    for agent, held in offsets.items():
        with AgentClient(agent, query, query_token(secret, query)) as client:
            blocks += [(agent, head) for head in client.commit(epoch, held, plan).blocks]
    return blocks


def merged(blocks: list[Block], plan: str, query: bytes, secret: bytes, mode: str = "auto") -> set[Row]:
    """(window start in us, key, sum, count) of all windows of the first ten minutes."""
    windows = list(range(0, 600_000_000, WINDOW_US))
    merger = _native.Merger(_native.Plan(plan), windows)
    for agent, raw in blocks:
        head = _native.Head(raw)
        ranges = head.ranges(0, 600_000_000, 0, 1 << 32)
        transport = choose_transport(agent, mode, query, query_token(secret, query))
        for (offset, _), buffer in zip(ranges, transport.read(agent, head.arena_offset, ranges), strict=True):
            merger.add(raw, offset, buffer)
    found: set[Row] = set()
    while (rows := merger.next()) is not None:
        batch = pa.record_batch(rows)
        start = batch.column(0).cast(pa.int64()).to_pylist()
        found |= set(zip(start, *(batch.column(i).to_pylist() for i in (2, 3, 4)), strict=True))
    return found


def spark_answer(session: SparkSession, df: DataFrame, key: str) -> set[Row]:
    """The same by Spark's own batch aggregation."""
    df.createOrReplaceTempView("update_case")
    rows = session.sql(
        f"select unix_micros(window.start), {key}, sum(v), count(*) "
        f"from update_case group by window(t, '10 seconds'), {key}"
    ).collect()
    return {tuple(row) for row in rows}
