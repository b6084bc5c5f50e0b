"""The rows that come to homes, and those that the user's function gives, as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import chain, pairwise
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, BinaryType, MapType, Row, StructType

# Of an Arrow batch of what is given: the first one tells how many bytes a row has.
_FIRST_ROWS = 100
_MOST_ROWS = 10_000
_MOST_BYTES = 4 << 20
# Of a value that holds them.
_PACKED_BYTES = 64 << 20
_MUTABLE = (ArrayType, BinaryType, MapType, StructType)

T = TypeVar("T")


@dataclass(frozen=True)
class Columns:
    """Places among columns: of the key, and of what the user's function gets in a frame."""

    keys: tuple[int, ...]
    values: tuple[int, ...]

    @classmethod
    def of(cls, offsets: list[int]) -> Self:
        """As Spark tells them: how many numbers follow, how many of the places behind are keys, and the places."""
        _, keys, *places = offsets
        return cls(tuple(places[:keys]), tuple(places[keys:]))


@dataclass(frozen=True)
class InputShape(Columns):
    """Of the columns behind the home, and which of them is the event time, if one makes rows late.

    Rows whose time is at or before `late_us` (microseconds) are late. `has_time`: there is an event time. `initial` is
    of the rows of an initial state; None: there is none to take. If there is, columns of both lie in structs.
    """

    time: int | None
    late_us: int
    has_time: bool
    initial: Columns | None = None


@dataclass(frozen=True)
class HomeRows:
    """Rows of a home, each sorted by their keys: those of the initial state, and those of the input."""

    initial: list[pa.RecordBatch]
    input: Iterator[pa.RecordBatch]

    @classmethod
    def of(cls, parts: Iterator[tuple[bool, pa.RecordBatch]]) -> Self:
        """Of parts in this order, with whether they are of the initial state."""
        initial: list[pa.RecordBatch] = []
        for is_initial, rows in parts:
            if not is_initial:
                return cls(initial, chain([rows], (rows for _, rows in parts)))
            initial.append(rows)
        return cls(initial, iter(()))


def runs(keys: list[pa.Array]) -> Iterator[tuple[int, int]]:
    """First and end of the rows that follow each other and have the same key."""
    changed = np.zeros(len(keys[0]) - 1, bool)
    for key in keys:
        before, after = key[:-1], key[1:]
        differs = pc.fill_null(pc.not_equal(before, after), pc.xor(before.is_null(), after.is_null()))
        changed |= differs.to_numpy(zero_copy_only=False)
    return pairwise([0, *(np.flatnonzero(changed) + 1).tolist(), len(keys[0])])


def in_parts(items: Iterable[T], size_of: Callable[[T], int], enough: int) -> Iterator[list[T]]:
    """Lists of them, each ended by the item with which it has `enough` bytes."""
    part, size = list[T](), 0
    for item in items:
        part.append(item)
        size += size_of(item)
        if size >= enough:
            yield part
            part, size = [], 0
    if part:
        yield part


def listed(column: pa.Array) -> list[Any]:
    """`column.to_pylist()`, which makes an object of Arrow's for each value, and takes microseconds for a time.

    Raises:
        OverflowError: as it does, of a time beyond the year 9999.
    """
    kind = column.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if (is_number and not column.null_count) or pa.types.is_string(kind) or pa.types.is_binary(kind):
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return values
    if pa.types.is_timestamp(kind) and kind.unit == "us" and len(column) > column.null_count:
        zone = column.drop_null()[0].as_py().tzinfo
        since = column.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False).view("m8[us]").tolist()
        return _times(since, zone)
    found: list[Any] = column.to_pylist()
    return found


def _times(since: list[timedelta | None], zone: tzinfo | None) -> list[datetime | None]:
    """Those that are so long after 1970 began in UTC, as a zone tells them."""
    start = datetime(1970, 1, 1, tzinfo=zone)
    there = [one for one in since if one is not None]
    times: Iterator[datetime] = map(start.__add__, there)
    if zone is not None:
        times = map(zone.fromutc, times)
    return [*times] if len(there) == len(since) else [None if one is None else next(times) for one in since]


def gives_mutable(schema: StructType) -> bool:
    """Whether Python has values of these columns that may change once they are given: lists, byte arrays, NumPy's."""
    return any(isinstance(field.dataType, _MUTABLE) for field in schema.fields)


class InputRows:
    """Counts `rows`, those that are `late` among them."""

    def __init__(self, shape: InputShape) -> None:
        self._shape = shape
        self.rows = 0
        self.late = 0

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bool, pa.RecordBatch]]:
        """The rows that are not late, without the home, in parts that are of one home each, with whether they are of
        the initial state.
        """
        for is_initial, batch in chain.from_iterable(map(self._sources, batches)):
            kept = batch if is_initial else self._in_time(batch)
            if not kept.num_rows:
                continue
            homes = pc.run_end_encode(kept.column(0))
            columns = pa.record_batch(kept.columns[1:], schema=pa.schema([*kept.schema][1:]))
            start = 0
            for home, end in zip(homes.values.to_pylist(), homes.run_ends.to_pylist(), strict=True):
                yield home, is_initial, columns.slice(start, end - start)
                start = end

    def _sources(self, batch: pa.RecordBatch) -> Iterator[tuple[bool, pa.RecordBatch]]:
        """Rows of the initial state, and those of the input, out of their structs."""
        if self._shape.initial is None:
            yield False, batch
        elif batch.num_rows:
            are_initial = batch.column(2).is_valid()
            for start, end in runs([are_initial]):
                is_initial = are_initial[start].as_py()
                home, *structs = batch.slice(start, end - start).columns
                struct = structs[is_initial]
                schema = pa.schema([batch.schema.field(0), *struct.type])
                yield is_initial, pa.record_batch([home, *struct.flatten()], schema=schema)

    def _in_time(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.rows += batch.num_rows
        if self._shape.time is None:
            return batch
        times = batch.column(1 + self._shape.time).cast(pa.int64())
        kept = batch.filter(pc.fill_null(pc.greater(times, self._shape.late_us), True))
        self.late += batch.num_rows - kept.num_rows
        return kept


class Given:
    """Collects the `rows` that the user's function gives, in order."""

    def __init__(self, schema: StructType) -> None:
        self._schema = pa.schema(list(to_arrow_type(schema, timezone="UTC", prefers_large_types=False)))
        self._is_nested = any(pa.types.is_nested(field.type) for field in self._schema)
        self._gives_mutable = gives_mutable(schema)
        self._names = (self._schema.names, tuple(self._schema.names))  # as rows have them
        self._pending: list[Sequence[Any]] = []
        self._room = _FIRST_ROWS
        self._small: list[pa.Table] = []
        self._small_rows = 0
        self._batches: list[pa.RecordBatch] = []
        self.rows = 0

    def take(self, rows: Iterable[Row]) -> None:
        """Take those of a call, which the processor may make as they are taken. As in Spark they are converted by its
        end: the next call may change what is in them.
        """
        for row in rows:
            self._pending.append(row if self._is_as_kept(row) else [*map(row.asDict(True).get, self._schema.names)])
            if len(self._pending) >= self._room:
                self._convert()
        if self._gives_mutable:
            self._convert()

    def _is_as_kept(self, row: Row) -> bool:
        """Whether its values are those of the columns, one by one."""
        names = getattr(row, "__fields__", None)
        return not self._is_nested and isinstance(row, Row) and len(row) == len(self._schema) and names in self._names

    def add(self, batch: pa.RecordBatch) -> None:
        """Take those of a batch, whose times may be of any zone."""
        if batch.num_rows:
            self._small.append(pa.Table.from_batches([batch]))
            self._small_rows += batch.num_rows
            if self._small_rows >= self._room:
                self._unite()

    def _convert(self) -> None:
        if self._pending:
            columns = zip(*self._pending, strict=True)
            self._pending = []
            arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
            self.add(pa.record_batch(arrays, schema=self._schema))

    def _unite(self) -> None:
        if self._small:
            for batch in pa.concat_tables(self._small).cast(self._schema).combine_chunks().to_batches():
                self._have(batch)
            self._small, self._small_rows = [], 0

    def _have(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self.rows += batch.num_rows
        self._room = max(1, min(_MOST_ROWS, _MOST_BYTES * batch.num_rows // max(1, batch.nbytes)))

    def packed(self) -> Iterator[bytes]:
        """All of them, as Arrow IPC streams one after the other: what is in one value stays in order."""
        self._convert()
        self._unite()
        return map(b"".join, in_parts(map(_stream, self._batches), len, _PACKED_BYTES))


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
