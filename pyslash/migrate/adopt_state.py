"""A task that makes blocks of pyslash of groups in Spark's state store, and writes them to the query's checkpoint.

rows of the store ──> an accumulator of the same keys, whose one aggregate is the row's number
                  ──> a block: keys in their segments; for each group the row that it was
                  ──> the same block with the states that Spark's buffers make, in a file
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pyslash._native import Accumulator, Arena, Head, Plan
from pyslash.errors import ArenaFullError
from pyslash.migrate.spark_buffers import SparkBuffers
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.spec import AggregateSpec, ColumnSpec, PlanSpec
from pyslash.plan.window import NO_WATERMARK_US
from pyslash.state.files.block_file import StoredBlock, segments_of, write
from pyslash.state.files.directory import BlockDirectory
from pyslash.state.replan import buffers_of, joined, layout, rewritten
from pyslash.units import Epoch, Run

FILE = "name string, bytes long, crc long, last_pane long"
_IDENTITY = b"\0" * 16
_LEAST_BYTES = 64 << 20
_MOST_ROWS = 1 << 20


class AdoptedFile(NamedTuple):
    """A file of blocks in the checkpoint, as its manifest names it."""

    name: str
    bytes: int
    crc: int
    last_pane: int


@dataclass(frozen=True)
class AdoptState:
    """A function for `df.mapInArrow(task, FILE)`: a row for each file that it has written.

    The columns of `df` are the event time, the keys, and Spark's buffers in the order of `SparkBuffers`.
    """

    plan: PlanIdentity
    location: str
    epoch: Epoch
    run: Run

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs in the executor.

        Raises:
            CheckpointError: a file cannot be written.
            UnsupportedQueryError: as `SparkBuffers.states`.
        """
        for number, rows in enumerate(_chunks(batches)):
            name = file_name(self.epoch, self.run, number)
            file = written(self.location, self.plan.text, name, self._block(rows))
            columns = [pa.array([file.name]), *(pa.array([value], pa.int64()) for value in file[1:])]
            yield pa.record_batch(columns, list(AdoptedFile._fields))

    def _block(self, rows: pa.Table) -> bytes:
        keys = len(self.plan.keys)
        numbered = _numbered(self.plan)
        columns = [column.combine_chunks() for column in rows.columns]
        accumulator = Accumulator(Plan(numbered.text), NO_WATERMARK_US)
        numbers = pa.array(np.arange(rows.num_rows, dtype=np.int64))
        taken = [*columns[: keys + 1], numbers]
        accumulator.add(pa.record_batch(taken, [f"c{index}" for index in range(len(taken))]))
        stored = _stored(sealed(accumulator, rows.nbytes))
        states = SparkBuffers(self.plan, columns[keys + 1 :], rows.num_rows).states()
        segments = []
        for _, data in stored.segments:
            found = list(buffers_of(memoryview(data), layout(numbered)).items())
            at = np.frombuffer(found[-1][1][0], np.int64)
            held = [buffer for (kind, _), buffers in found if kind.startswith("key ") for buffer in buffers]
            segments.append(joined([*held, *(buffer for state in states for buffer in state(at))]))
        return rewritten(stored, self.plan.text, segments)


def _numbered(plan: PlanIdentity) -> PlanIdentity:
    """The same groups, of each of which only the number of its row is known."""
    keys, number = len(plan.keys), ColumnSpec("int64", False)
    spec = PlanSpec(
        window=plan.window,
        columns=(*(key.spec for key in plan.keys), number),
        keys=tuple(range(1, keys + 1)),
        aggregates=(AggregateSpec("max", (keys + 1,)),),
        moments=plan.spec.deduplicates,  # of which rows without a time are, too
    )
    return PlanIdentity(spec, (*map(str, range(keys)), "number"), plan.time)


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """As many rows as make one block."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= _MOST_ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if any(one.num_rows for one in held):
        yield pa.Table.from_batches(held)


def file_name(epoch: Epoch, run: Run, number: int) -> str:
    """Of a file of this attempt of a task, which no other attempt writes."""
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = context.taskAttemptId() if context is not None else 0
    return f"{epoch}-{run}-adopted-{attempt}-{number}.arrow"


def written(location: str, plan: str, name: str, block: bytes) -> AdoptedFile:
    """Write a file of one block.

    Raises:
        CheckpointError: it cannot be written.
    """
    size, crc = BlockDirectory(location).write(name, partial(write, plan, [block]))
    return AdoptedFile(name, size, crc, max(pane for pane, _, _ in Head(block).panes))


def sealed(accumulator: Accumulator, size: int) -> bytes:
    """The block of what was accumulated, of about so many bytes, copied out of an arena of its own."""
    room = max(_LEAST_BYTES, 4 * size)
    while True:
        handle = os.memfd_create("pyslash-adopted", os.MFD_CLOEXEC)
        try:
            arena = Arena.create(handle, room, _IDENTITY)
        finally:
            os.close(handle)
        try:
            head = Head(accumulator.seal(arena, _IDENTITY, Epoch(0), 0))
        except ArenaFullError:
            room *= 2
            continue
        block = bytes(arena.view(head.arena_offset, head.length))
        arena.close()
        return block


def _stored(block: bytes) -> StoredBlock:
    head = block[: Head(block).head_length]
    return StoredBlock(
        head, [(one, pa.py_buffer(block[one.offset : one.offset + one.length])) for one in segments_of(head)]
    )
