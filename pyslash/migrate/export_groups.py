"""What `pyslash state export` writes of an aggregation's state: Spark's keys and aggregation buffers, side by side.

block files ──> one block (compacted) ──> Spark's keys and buffers ──> rows, shared among tasks as Spark shares keys
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from pyslash._native import Arena, Head, Plan, compact
from pyslash.agent.store.adopt import adopt
from pyslash.migrate.spark_columns import columns_of
from pyslash.migrate.spark_layout import SparkLayout
from pyslash.plan.arrow_types import arrow_type
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.window import first_live_pane
from pyslash.state.files.block_file import StoredBlock, segments_of
from pyslash.state.manifest import Manifest
from pyslash.state.stored import StoredState
from pyslash.units import Epoch

_QUERY = b"\0" * 16
_LEAST_BYTES = 64 << 20


@dataclass(frozen=True)
class ExportGroups:
    """The state of an aggregation or a deduplication, as rows of Spark's state store."""

    state: StoredState
    manifest: Manifest
    layout: SparkLayout

    def rows(self, session: SparkSession, partitions: int) -> DataFrame:
        """Fields of Spark's keys and values, side by side, in the partitions of Spark's store."""
        layout = self.layout
        rows = _rows(session, layout, _table(self.state, self.manifest, layout))
        keys = [f"key{index}" for index in range(len(layout.key.fields))]
        return rows.repartition(partitions, *keys) if keys else rows.coalesce(1)


def _table(state: StoredState, manifest: Manifest, layout: SparkLayout) -> pa.Table:
    """The start of each group's pane, its keys and buffers, of the windows that are open after this epoch."""
    plan = manifest.identity
    native = [*(key.type for key in plan.keys), *(one.type for one in layout.buffers)]
    types = [pa.int64(), *map(arrow_type, native)]
    batches = [
        pa.record_batch([pa.array([pane] * groups, pa.int64()), *columns], [f"c{i}" for i in range(len(columns) + 1)])
        for pane, groups, columns in _segments(state, manifest, plan)
    ]
    if batches:
        return pa.Table.from_batches(batches)
    return pa.table([pa.array([], kind) for kind in types], [f"c{i}" for i in range(len(types))])


def _segments(state: StoredState, manifest: Manifest, plan: PlanIdentity) -> Iterator[tuple[int, int, list[pa.Array]]]:
    blocks = [block for block in state.blocks_of(manifest) if block.segments]
    if not blocks:
        return
    first = first_live_pane(plan.window, manifest.watermark_us)
    block = _compacted(plan, blocks, first)
    if block is None:
        return
    for segment in segments_of(block):
        data = block[segment.offset : segment.offset + segment.length]
        yield segment.pane, segment.groups, columns_of(plan, data, segment.groups)


def _compacted(plan: PlanIdentity, blocks: list[StoredBlock], first_pane: int) -> bytes | None:
    """All blocks as one."""
    size = sum(Head(block.head).length for block in blocks)
    handle = os.memfd_create("pyslash-export", os.MFD_CLOEXEC)
    try:
        arena = Arena.create(handle, max(_LEAST_BYTES, 4 * size), _QUERY)
        places = [Head(adopt(arena, handle, _QUERY, Epoch(0), block)).arena_offset for block in blocks]
    finally:
        os.close(handle)
    head = compact(Plan(plan.text), arena, places, first_pane, _QUERY, Epoch(1))
    if not head:
        return None
    found = Head(head)
    block = bytes(arena.view(found.arena_offset, found.length))
    arena.close()
    return block


def _rows(session: SparkSession, layout: SparkLayout, table: pa.Table) -> DataFrame:
    """Rows of Spark's keys and values, their fields side by side."""
    frame = session.createDataFrame(table)
    columns: list[Column] = []
    keys = {place: number for number, place in enumerate(layout.places, 1)}
    for index, field in enumerate(layout.key.fields):
        if index == layout.window_at:
            columns.append(_window(field, layout.plan.window.size_us).alias(f"key{index}"))
        else:
            columns.append(F.col(f"c{keys[index]}").cast(field.dataType).alias(f"key{index}"))
    for index, field in enumerate(layout.value.fields):
        known = F.col(f"c{1 + len(keys) + index}").cast(field.dataType) if layout.has_values else F.lit(None)
        columns.append(known.alias(f"value{index}"))
    return frame.select(*columns)


def _window(field: StructField, size_us: int) -> Column:
    """The window that begins with the group's pane."""
    assert isinstance(field.dataType, StructType)
    bounds = []
    for of, micros in zip(field.dataType.fields, (F.col("c0"), F.col("c0") + F.lit(size_us)), strict=True):
        time = F.timestamp_micros(micros)
        bounds.append(time.cast(of.dataType).alias(of.name))
    return F.struct(*bounds)
