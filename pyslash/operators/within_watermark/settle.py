"""The task that settles which rows a deduplication within the watermark emits, and writes them as the epoch's state."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pyslash._native import Accumulator
from pyslash.emit.fetch import equal_cuts
from pyslash.emit.merge import BOUNDS, PREFIXES, MergeRequest, merge
from pyslash.ingest.block_publisher import BlockPublisher
from pyslash.plan.window import NO_WATERMARK_US
from pyslash.units import Micros

_INTEGERS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


@dataclass(frozen=True)
class Settle:
    """A function of a task's number, for a task to run.

    `publisher` has the plan of the state. `candidates` gives the first row of each key of the epoch; `state` gives the
    newest entry of each key in each pane, with its expiry as the last column, and is None where nothing is live.
    Entries that expire by `evicted_us` are not live. `history` is as `state`, of a backfill: those of its rows that are
    not late, by `emitted_us`, come before the candidates. Merged rows have `keys` columns of the key behind the
    window's bounds; from there, `columns` are those of the candidates that the state's plan takes, and `time` is the
    event time: a row's key expires `delay_us` after it. Panes that end by `emitted_us` are not read any more. Times are
    microseconds.
    """

    publisher: BlockPublisher
    candidates: MergeRequest
    state: MergeRequest | None
    history: MergeRequest | None
    keys: int
    columns: list[int]
    time: int
    delay_us: Micros
    evicted_us: Micros
    emitted_us: Micros
    tasks: int

    def __call__(self, task: int) -> bytes:
        """Runs in the executor; the receipt.

        Raises:
            CorruptBlockError: a block is not what its task has written.
            StaleIncarnationError, AgentError: an agent that holds blocks is gone, or does not answer.
            AgentStartError, ArenaFullError, SpillError: as `BlockPublisher.published`.
        """
        prefixes = equal_cuts((0, PREFIXES), self.tasks)[task]

        def fill(accumulator: Accumulator) -> None:
            for batch in self.settled(prefixes):
                accumulator.add(batch)

        return self.publisher.sealed(fill)

    def settled(self, prefixes: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        """What is emitted of keys with these prefixes: the time of its pane, the columns, its expiry."""
        rows = _table(self.candidates, prefixes)
        if self.history is not None:
            rows = self._behind_history(rows, prefixes)
        if self.state is not None and rows.num_rows:
            held = _table(self.state, prefixes)
            held = held.filter(pc.greater(held.columns[-1], self.evicted_us))
            rows = rows.take(_without(_keys_of(rows, self.keys), _keys_of(held, self.keys)))
        time = rows.column(BOUNDS + self.time)
        # Spark reads the time of a row without one as 0.
        expiry = pc.add(pc.fill_null(time.cast(pa.int64()), 0), self.delay_us)
        pane = expiry if self.emitted_us == NO_WATERMARK_US else pc.max_element_wise(expiry, self.emitted_us + 1)
        columns = [pane.cast(time.type), *(rows.column(BOUNDS + at) for at in self.columns), expiry]
        table = pa.table(columns, names=[str(index) for index in range(len(columns))])
        yield from table.combine_chunks().to_batches()

    def _behind_history(self, rows: pa.Table, prefixes: tuple[int, int]) -> pa.Table:
        """The history's row of each key that it has, and these rows of the others."""
        assert self.history is not None
        first = _table(self.history, prefixes)
        time = first.column(BOUNDS + self.time)
        in_time = pc.greater(time.cast(pa.int64()), self.emitted_us)
        first = first.filter(pc.fill_null(in_time, True)).select(rows.column_names)  # without an expiry
        others = rows.take(_without(_keys_of(rows, self.keys), _keys_of(first, self.keys)))
        return pa.concat_tables([first, others])


def _table(request: MergeRequest, prefixes: tuple[int, int]) -> pa.Table:
    batches = merge(request, *prefixes, lambda transport, size: None)
    return pa.Table.from_batches(batches, request.schema)


def _keys_of(rows: pa.Table, keys: int) -> pa.Table:
    """The keys in columns that can be joined, in which a null is a value like any other."""
    columns: dict[str, pa.Array] = {"any": pa.repeat(pa.scalar(True), rows.num_rows)}  # a key may have no columns
    for index in range(BOUNDS, BOUNDS + keys):
        column = _bits(pa.concat_arrays([pa.array([], rows.schema.types[index]), *rows.column(index).chunks]))
        columns[f"{index} is null"] = column.is_null()
        columns[str(index)] = column.fill_null(pa.scalar(b"" if pa.types.is_binary(column.type) else 0, column.type))
    return pa.table(columns)


def _bits(column: pa.Array) -> pa.Array:
    """Integers or binaries that are equal where the values are: so are all zeros, and all NaNs."""
    kind = column.type
    if pa.types.is_floating(kind):
        zero, nan = (pa.scalar(value, kind) for value in (0.0, math.nan))
        column = pc.if_else(pc.equal(column, zero), zero, pc.if_else(pc.is_nan(column), nan, column))
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8())
    if pa.types.is_decimal(kind):
        return column.cast(pa.string()).cast(pa.binary())
    if pa.types.is_primitive(kind):
        return column.view(_INTEGERS[kind.bit_width])
    return column.cast(pa.binary())


def _without(keys: pa.Table, held: pa.Table) -> pa.Array:
    """Numbers of the rows whose keys are not held, ascending."""
    numbered = keys.append_column("row", pa.array(range(keys.num_rows), pa.int64()))
    left = numbered.join(held, keys=keys.column_names, join_type="left anti", use_threads=False)
    return left.column("row").combine_chunks().sort()
