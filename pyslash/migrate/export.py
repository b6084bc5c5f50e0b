"""`pyslash state export`: the state of a stopped query, written into Spark's own state store.

    block files ──> one block (compacted) ──> Spark's keys and buffers ──> rows, shared among tasks as Spark shares keys
      ──> Spark's own state store provider: the version as of the last committed batch
      ──> the folder `slash` is renamed: from here on the state is Spark's

Until then pyslash continues with the checkpoint as it was. The state has to fit into the memory of this process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from pyslash._native import Arena, Head, Plan, compact
from pyslash.agent.store.adopt import adopt
from pyslash.errors import CheckpointError, InvalidInputError
from pyslash.migrate.spark_columns import columns_of
from pyslash.migrate.spark_layout import SparkLayout, check_movable
from pyslash.plan.arrow_types import arrow_type
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.reasons import Uncovered
from pyslash.plan.window import first_live_pane
from pyslash.spark.execution import has_own_offsets
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.state.files.block_file import StoredBlock, segments_of
from pyslash.state.files.directory import BlockDirectory, numbers
from pyslash.state.manifest import MANIFESTS, OPERATOR, Manifest
from pyslash.state.stored import StoredState
from pyslash.units import Epoch

_QUERY = b"\0" * 16
_LEAST_BYTES = 64 << 20


@dataclass(frozen=True)
class Exported:
    """As of the end of which batch, how many groups, and where what was pyslash's state is kept."""

    epoch: Epoch
    groups: int
    kept: str


def export(spark: SparkSession, checkpoint: str) -> Exported:
    """Move a query back to plain Spark with its state. The query must not run.

    Raises:
        CheckpointError: the checkpoint has no such state, or cannot be read or written.
        InvalidInputError: the state cannot be moved; the message names what and why. Nothing has changed.
        CorruptBlockError, StateLostError: as `StoredState.read`.
    """
    state = StoredState.at(checkpoint)
    manifest = state.manifest(_committed(state))
    plan = manifest.identity
    if numbers(BlockDirectory(f"{state.location}/{OPERATOR.format(1)}/{MANIFESTS}").names()):
        raise InvalidInputError(
            "the query has several operators with state, and `export` moves that of one. Let pyslash go on with it"
        )
    if plan.operator == "transformWithState":
        raise InvalidInputError(
            "the state of a processor in Python moves to pyslash, and not back to plain Spark yet: Spark keeps each "
            "variable by itself, in a store that only its own operator writes. Let pyslash go on with the query"
        )
    try:
        check_movable(plan)
    except Uncovered as reason:
        raise InvalidInputError(f"{reason}. Let pyslash go on with the query") from None
    session = spark.newSession()
    conf, partitions = _settings(state, session, manifest.epoch)
    for name, value in conf.items():
        session.conf.set(name, value)
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.session.timeZone", "UTC")  # of windows of times without a zone
    key, value = _schemas(session, state.location, manifest.epoch)
    try:
        layout = SparkLayout(plan, key, value)
    except Uncovered as reason:
        raise InvalidInputError(f"{reason}. Let pyslash go on with the query") from None
    rows = _rows(session, layout, _table(state, manifest, layout))
    groups = _write(session, state, manifest.epoch, layout, rows, partitions)
    return Exported(manifest.epoch, groups, _switch(session, state))


def _committed(state: StoredState) -> Epoch:
    """The last batch that Spark has committed."""
    done = numbers(BlockDirectory(f"{state.location}/commits").names())
    if not done:
        raise CheckpointError(f"{state.location} has no committed batch: there is no state to export yet")
    return Epoch(max(done))


def _settings(state: StoredState, session: SparkSession, epoch: Epoch) -> tuple[dict[str, str], int]:
    """Spark's settings that the query has had since its first batch, and the partitions of its state."""
    entry = BlockDirectory(f"{state.location}/offsets").content(str(epoch)).to_pybytes()
    if has_own_offsets(entry):
        raise InvalidInputError(
            "the query has skipped records of its source (spark.slash.backlog, spark.slash.shed), and plain Spark "
            "would not know of them. Let pyslash go on until none is left to be read"
        )
    conf = {name: str(value) for name, value in json.loads(entry.decode().splitlines()[1])["conf"].items()}
    store = conf.get("spark.sql.streaming.stateStore.providerClass", "")
    if not store.endswith("HDFSBackedStateStoreProvider"):
        raise InvalidInputError(
            f"the query's state store is {store}; `export` writes HDFSBackedStateStoreProvider's alone, whose versions "
            "do not depend on each other. Let pyslash go on with the query"
        )
    if conf.get("spark.sql.streaming.stateStore.checkpointFormatVersion", "1") != "1":
        raise InvalidInputError("the query's state store names its versions by unique ids, which `export` cannot give")
    described = session.read.format("state-metadata").load(state.location)
    (found,) = {int(row.numPartitions) for row in described.where("operatorId = 0").collect()}
    return conf, found


def _schemas(session: SparkSession, location: str, epoch: Epoch) -> tuple[StructType, StructType]:
    """Of Spark's keys and values, which Spark has written when it planned the query."""
    try:
        schema = session.read.format("statestore").option("batchId", epoch).load(location).schema
    except (PySparkException, Py4JError) as error:
        raise CheckpointError(f"Spark does not tell the schema of the state in {location}: {error}") from error
    key, value = schema["key"].dataType, schema["value"].dataType
    assert isinstance(key, StructType)
    assert isinstance(value, StructType)
    return key, value


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
    blocks = [block for _, stored in state.read(manifest) for block in stored if block.segments]
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
    keys = iter(range(1, table.num_columns))
    for index, field in enumerate(layout.key.fields):
        if index == layout.window_at:
            columns.append(_window(field, layout.plan.window.size_us).alias(f"key{index}"))
        else:
            columns.append(F.col(f"c{next(keys)}").cast(field.dataType).alias(f"key{index}"))
    for index, field in enumerate(layout.value.fields):
        known = F.col(f"c{next(keys)}").cast(field.dataType) if layout.has_values else F.lit(None)
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


def _write(
    session: SparkSession, state: StoredState, epoch: Epoch, layout: SparkLayout, rows: DataFrame, partitions: int
) -> int:
    keys = [f"key{index}" for index in range(len(layout.key.fields))]
    shared = rows.repartition(partitions, *keys) if keys else rows.coalesce(1)
    staging = f"{state.location}/slash/export-{uuid4().hex}"
    target = f"{state.location}/state"
    schemas = [one.json() for one in (layout.key, layout.value)]
    try:
        java = JvmBridge(session).java
        written = int(java.exportState(session._jsparkSession, staging, target, epoch + 1, *schemas, shared._jdf))
    except Py4JError as error:
        raise CheckpointError(f"Spark's state store was not written, and nothing has changed: {error}") from error
    read = session.read.format("statestore").option("batchId", epoch).load(state.location).count()
    if read != written:
        raise CheckpointError(f"Spark reads {read} of {written} groups that were written; nothing has changed")
    return written


def _switch(session: SparkSession, state: StoredState) -> str:
    """Rename what is pyslash's: from here on plain Spark continues."""
    jvm: Any = session._jvm
    path = jvm.org.apache.hadoop.fs.Path
    ours, kept = path(f"{state.location}/slash"), path(f"{state.location}/slash-exported-{uuid4().hex[:8]}")
    files = ours.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    if not files.rename(ours, kept):
        raise CheckpointError(f"{ours} cannot be renamed to {kept}; nothing has changed")
    return str(kept)
