"""What to merge; and small merges, in the driver: read the ranges that are needed from every block, and merge them.

Larger ones are done by tasks (`column_merge`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from pyslash._native import Merger, Plan, SessionMerger
from pyslash.emit.fetch import Fetch, Part, Prefixes
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.state.version import VersionStep
from pyslash.units import Epoch, Micros

PREFIXES = 1 << 32
BOUNDS = 2
"""Columns of merged rows before the keys: of the window."""


@dataclass(frozen=True)
class HomeUpdate:
    """Groups that are kept from epoch to epoch where they are merged.

    `step` is what the epoch makes of the state; windows that end by `evicted_us` are over. Of sessions, `pane` holds
    them, and those that end by `closing_us` are emitted.
    """

    step: VersionStep
    epoch: Epoch
    evicted_us: Micros
    pane: int = 0
    closing_us: Micros = Micros(0)


@dataclass(frozen=True)
class MergeRequest:
    """What to merge.

    `windows` are the starts (microseconds) of the windows to emit, of which only groups count that blocks of the epoch
    `changed_in` have rows of, unless it is None; `blocks` are (agent, raw head) of every block that holds one of their
    panes, and maybe of others; `schema` is the Arrow schema that Spark expects; `timeout_seconds` bounds each read.
    `sessions`, if these are merged: the pane that holds them, and the times between which those end that are emitted.
    """

    plan: str
    windows: list[int]
    changed_in: Epoch | None
    panes: tuple[int, int]
    blocks: list[tuple[AgentDescriptor, bytes]]
    query_id: bytes
    token: bytes
    transport: str
    schema: pa.Schema
    timeout_seconds: float
    sessions: tuple[int, int, int] | None = None

    def merger(self, prefixes: Prefixes) -> Merger | SessionMerger:
        """What merges keys of a range of prefixes."""
        plan = Plan(self.plan)
        if self.sessions is not None:
            return SessionMerger(plan, *self.sessions, *prefixes)
        return Merger(plan, self.windows, *prefixes, self.changed_in)


def merge(
    request: MergeRequest, prefix_lo: int, prefix_hi: int, count: Callable[[str, int], None]
) -> Iterator[pa.RecordBatch]:
    """Rows of the windows whose keys' hash prefixes lie in [prefix_lo, prefix_hi).

    Args:
        request: what to merge.
        prefix_lo: first prefix.
        prefix_hi: end of the prefixes, at most 2**32.
        count: told (transport, bytes) for each read.
    """
    credentials = (request.query_id, request.token)
    fetch = Fetch(request.blocks, request.panes, request.transport, credentials, request.timeout_seconds)

    def rows_of(part: Part) -> Iterator[pa.RecordBatch]:
        merger = request.merger(part.prefixes)
        for raw, offset, buffer in part.pieces:
            merger.add(raw, offset, buffer)
        for transport, size in part.moved:
            count(transport, size)
        while (rows := merger.next()) is not None:
            yield with_schema(pa.record_batch(rows), request.schema)

    yield from chain.from_iterable(map(rows_of, fetch.parts((prefix_lo, prefix_hi))))


def with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns under Spark's names and types; only a time zone can differ, which moves no data."""
    columns = [
        column if column.type == field.type else column.view(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.record_batch(columns, schema=schema)
