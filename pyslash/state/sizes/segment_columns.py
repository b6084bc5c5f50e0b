"""What the groups of segments are, and how large each is, without merging them: a table, read from their buffers.

A segment's CRC is not checked, since that would read all of it. So nothing here trusts a length or an offset.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyslash.errors import CorruptBlockError
from pyslash.plan.change.identity import Input, PlanIdentity
from pyslash.state.files.block_file import Segment
from pyslash.state.replan import Column, buffers_of, layout

ROWS, BYTES = "rows", "bytes"
Sizes = npt.NDArray[np.int64]
_RAW: dict[str, pa.DataType] = {
    "boolean": pa.int8(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "date": pa.int32(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}
_OFFSETS_OF_KEY = 1
# Where the offsets of values of variable width are among a state's buffers, by its kind and how many it has.
_OFFSETS: dict[tuple[str, int], tuple[int, ...]] = {
    **{(kind, 3): (1,) for kind in ("min", "max")},
    **{(kind, 5): (3,) for kind in ("first", "first_value", "last", "last_value")},
    **{(kind, count): at for kind in ("max_by", "min_by") for count, at in ((6, (4,)), (7, (3,)), (8, (3, 6)))},
}
_COLLECTING = ("collect", "collect_folding")
# Of a kept row's columns (docs/block-format.md).
_SIDE, _EXPIRES, _EPOCH, _OF_JOIN, _ROW = 1, 2, 3, 5, 6


@dataclass(frozen=True)
class KeptRows:
    """Rows that a join keeps: of which side, by which watermark each is evicted, in which micro-batch it came.

    In `data` they lie as Spark has them.
    """

    side: Any
    expires: Sizes
    epoch: Sizes
    starts: Sizes
    sizes: Sizes
    data: Any

    def where(self, wanted: npt.NDArray[np.bool_]) -> KeptRows:
        """Some of them."""
        return KeptRows(
            self.side[wanted],
            self.expires[wanted],
            self.epoch[wanted],
            self.starts[wanted],
            self.sizes[wanted],
            self.data,
        )


@dataclass(frozen=True)
class SegmentColumns:
    """The columns of all segments of one plan."""

    plan: PlanIdentity

    @cached_property
    def key_names(self) -> list[str]:
        """Those of a table's first columns."""
        return [f"key{at}" for at in range(len(self.plan.keys))]

    @cached_property
    def _columns(self) -> list[Column]:
        if not self.plan.spec.joins:
            return layout(self.plan)
        time = Input("", "timestamp", True)
        return [Column(str(at), (), 3 if _is_variable(one) else 2) for at, one in enumerate([time, *self.plan.inputs])]

    @cached_property
    def _keys(self) -> list[Column]:
        return [self._columns[_OF_JOIN]] if self.plan.spec.joins else self._columns[: len(self.plan.keys)]

    @cached_property
    def nothing(self) -> pa.Table:
        """A table of no groups."""
        kinds = [pa.large_binary() if _is_variable(key) else raw_type(key.type) for key in self.plan.keys]
        names = [*self.key_names, ROWS, BYTES]
        return pa.schema(zip(names, [*kinds, pa.int64(), pa.int64()], strict=True)).empty_table()

    def table(self, segment: Segment, data: Any) -> pa.Table:
        """A row for each group of a segment: the raw values of its keys, its input rows, and its share of the bytes.

        Of a join it is a row that is kept; then `rows` is 1. What they have alike is divided between them.

        Raises:
            CorruptBlockError: the buffers are not those of so many groups.
        """
        held = self._buffers(segment, data)
        keys = [
            _raw_values(key.type, held[column.name], segment.groups)
            for key, column in zip(self.plan.keys, self._keys, strict=True)
        ]
        sizes = _none(segment.groups)
        for column in self._columns:
            sizes += self._own_bytes(column, held[column.name], segment.groups)
        sizes += (segment.length - int(sizes.sum())) // max(1, segment.groups)
        return pa.table([*keys, self._rows(held, segment.groups), sizes], [*self.key_names, ROWS, BYTES])

    def kept_rows(self, segment: Segment, data: Any) -> KeptRows:
        """What a segment of a join has, of both sides.

        Raises:
            CorruptBlockError: the buffers are not those of so many rows.
        """
        held = self._buffers(segment, data)

        def buffers(place: int) -> list[memoryview]:
            return held[self._columns[place].name]

        _, offsets, values = buffers(_ROW)
        starts = _offsets(offsets, segment.groups, len(values))
        return KeptRows(
            _numbers(buffers(_SIDE)[1], np.int8, segment.groups),
            _numbers(buffers(_EXPIRES)[1], np.int64, segment.groups),
            _numbers(buffers(_EPOCH)[1], np.int64, segment.groups),
            starts[:-1],
            np.diff(starts),
            values,
        )

    def _buffers(self, segment: Segment, data: Any) -> dict[Any, list[memoryview]]:
        try:
            return buffers_of(memoryview(data), self._columns)
        except (struct.error, ValueError) as error:
            raise CorruptBlockError(f"the segment at {segment.offset} has no buffers: {error}") from None

    def _rows(self, held: dict[Any, list[memoryview]], groups: int) -> Sizes:
        if self.plan.spec.joins:
            return np.ones(groups, np.int64)
        (counts,) = held["rows", ()]
        return _numbers(counts, np.int64, groups) if len(counts) else _none(groups)

    def _own_bytes(self, column: Column, buffers: list[memoryview], groups: int) -> Sizes:
        """Those of values of variable width."""
        if self.plan.spec.joins or column.kind.startswith("key "):
            return _lengths(buffers[_OFFSETS_OF_KEY], buffers[2], groups) if len(buffers) == 3 else _none(groups)
        if column.kind in _COLLECTING:
            first, ends, epochs, _, values = buffers
            count = len(epochs) // 8
            starts = _offsets(first, groups, count)
            of_values = _offsets(ends, count, len(values))
            return of_values[starts[1:]] - of_values[starts[:-1]] + (starts[1:] - starts[:-1]) * 20
        if column.kind.startswith("registers"):
            return _registers(buffers[0], int(column.kind.removeprefix("registers")), groups)
        own = _none(groups)
        for at in _OFFSETS.get((column.kind, len(buffers)), ()):
            own += _lengths(buffers[at], buffers[at + 1], groups)
        return own


def _is_variable(column: Input) -> bool:
    return column.type in ("string", "binary")


def _none(groups: int) -> Sizes:
    return np.zeros(groups, np.int64)


def _raw_values(native: str, buffers: list[memoryview], groups: int) -> pa.Array:
    """Keys as numbers or bytes: they are compared here, and not shown."""
    bits = pa.py_buffer(buffers[0]) if len(buffers[0]) else None
    if bits is not None and bits.size * 8 < groups:
        raise CorruptBlockError(f"{bits.size} bytes cannot say which of {groups} keys are null")
    if native in ("string", "binary"):
        _lengths(buffers[1], buffers[2], groups)
        values = pa.Array.from_buffers(pa.binary(), groups, [bits, *map(pa.py_buffer, buffers[1:])])
        return values.cast(pa.large_binary())
    raw = raw_type(native)
    if len(buffers[1]) != groups * raw.bit_width // 8:
        raise CorruptBlockError(f"{len(buffers[1])} bytes are not {groups} keys of the type {native}")
    return pa.Array.from_buffers(raw, groups, [bits, pa.py_buffer(buffers[1])])


def raw_type(native: str) -> pa.DataType:
    """Of keys of fixed width, before they are shown.

    >>> raw_type("timestamp"), raw_type("decimal(38,2)")
    (DataType(int64), FixedSizeBinaryType(fixed_size_binary[16]))
    """
    if native.startswith("decimal(") and int(native[8:].split(",")[0]) > 18:
        return pa.binary(16)
    return _RAW.get(native, pa.int64())


def _numbers(buffer: memoryview, kind: Any, count: int) -> Any:
    if len(buffer) != count * np.dtype(kind).itemsize:
        raise CorruptBlockError(f"a buffer of a segment has {len(buffer)} bytes, which are not {count} numbers")
    return np.frombuffer(buffer, kind)


def _offsets(buffer: memoryview, count: int, end: int) -> Sizes:
    found: Sizes = _numbers(buffer, np.int32, count + 1).astype(np.int64)
    if found[0] < 0 or found[-1] > end or (np.diff(found) < 0).any():
        raise CorruptBlockError(f"offsets of a segment lead out of its {end} values or bytes")
    return found


def _lengths(offsets: memoryview, values: memoryview, groups: int) -> Sizes:
    found: Sizes = np.diff(_offsets(offsets, groups, len(values)))
    return found


def _registers(buffer: memoryview, bits: int, groups: int) -> Sizes:
    """A byte a group announces what follows (docs/block-format.md); words alone are of all groups alike."""
    words = 8 * ((1 << bits) // 10 + 1)
    if len(buffer) == words * groups:
        return _none(groups)
    announced = _numbers(buffer[:groups], np.uint8, groups).astype(np.int64)
    own = np.where(announced == 255, words, announced * (2 if bits <= 10 else 4))
    if own.sum() > len(buffer):
        raise CorruptBlockError(f"{len(buffer)} bytes of registers are too few for {groups} groups")
    return own
