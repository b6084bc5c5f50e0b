"""Frames of pandas as the user's function gets them, and Arrow of those that it gives, as PySpark's worker makes both.

What a frame has of a column depends on the rows that Spark happens to convert together: integers become floating-point
numbers where one of them is null. So batches are cut as Spark cuts them, and PySpark's own functions convert them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkValueError
from pyspark.sql.conversion import ArrowBatchTransformer, PandasToArrowConversion
from pyspark.sql.types import StructType

from pyslash.operators.transform.client import StateClient
from pyslash.operators.transform.frame_conf import UNLIMITED, FrameConf
from pyslash.operators.transform.function import UserFunction
from pyslash.operators.transform.processor import Group, Key, ProcessorCalls
from pyslash.operators.transform.rows import Columns, Given, HomeRows, InputShape, gives_mutable
from pyslash.operators.transform.slices import Nature, Slices, is_of_objects
from pyslash.operators.transform.state.values import RowForm

Kind = tuple[list[Any], list[Any]]

# Rows that are given and converted together, about.
_TOGETHER = 10_000
# What pandas makes of Python's values, by the kind of NumPy's type.
_INFERRED = {"i": "int64", "f": "float64", "M": "datetime64[ns]"}


class FrameForm:
    """Converts frames, of these settings; those that the user's function gives have the schema `given`."""

    def __init__(self, conf: FrameConf, given: StructType) -> None:
        self.conf = conf
        self.names: list[str] = given.names
        # Of lists, dictionaries and byte arrays a copied frame has the same ones.
        self.gives_mutable = gives_mutable(given)
        self._given = StructType().add("rows", given)

    def cut(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same rows in the batches that Spark would send to its worker: each is full, but for the last one."""
        parts: list[pa.RecordBatch] = []
        rows, size = 0, 0.0
        for batch in batches:
            row_size = batch.nbytes / batch.num_rows
            while batch.num_rows:
                room = min(self.conf.most_rows - rows, self._rows_of(self.conf.most_bytes - size, row_size))
                part = batch.slice(0, room)
                parts.append(part)
                rows, size = rows + part.num_rows, size + part.num_rows * row_size
                batch = batch.slice(part.num_rows)
                if part.num_rows == room:
                    yield _joined(parts)
                    parts, rows, size = [], 0, 0.0
        if parts:
            yield _joined(parts)

    def _rows_of(self, size: float, row_size: float) -> int:
        """How many rows make so many bytes, the last of them in part."""
        return max(1, -int(-size // row_size)) if row_size and self.conf.most_bytes != UNLIMITED else UNLIMITED

    def series(self, batch: pa.RecordBatch) -> list[pd.Series]:
        """The columns of a batch."""
        conf = self.conf
        found: list[pd.Series] = ArrowBatchTransformer.to_pandas(
            batch, timezone=conf.time_zone, prefer_int_ext_dtype=conf.integers_with_nulls
        )
        return found

    def nature(self, column: pa.Array) -> Nature:
        """That of a column of a batch, as far as its series is concerned."""
        kind = column.type
        if pa.types.is_boolean(kind) or (pa.types.is_integer(kind) and not self.conf.integers_with_nulls):
            return Nature.FRAGILE if column.null_count else Nature.STEADY
        is_steady = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_timestamp(kind)
        return Nature.STEADY if is_steady or is_of_objects(kind) else Nature.UNKNOWN

    def arrow(self, frame: pd.DataFrame, casts: bool = True) -> pa.RecordBatch:
        """A frame that the user's function gives, with a cast where Arrow does not take a value as it is."""
        conf = self.conf
        converted = PandasToArrowConversion.convert(
            [frame],
            self._given,
            timezone=conf.time_zone,
            safecheck=conf.safely,
            arrow_cast=casts,
            assign_cols_by_name=conf.by_name,
            int_to_decimal_coercion_enabled=conf.integers_as_decimals,
        )
        return pa.RecordBatch.from_struct_array(converted.column(0))


class FrameCalls(ProcessorCalls):
    """Of a processor that takes and gives frames."""

    def __init__(
        self,
        function: UserFunction,
        forms: dict[str, RowForm],
        shape: InputShape,
        frames: FrameForm,
    ) -> None:
        super().__init__(function, forms, shape)
        self._frames = frames
        self._together = Together(frames)

    def over(self, client: StateClient, rows: HomeRows, given: Given) -> None:
        """Call it."""
        try:
            super().over(client, rows, given)
        finally:
            self._together.convert(given)  # what fails here comes before what the processor has raised

    def groups(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Group]:
        """Its rows in one frame, or in several if there are more than are converted together."""
        return _FrameRows(self._frames).of_keys(batches, self._shape)

    def groups_with_initial(self, rows: HomeRows, initial: Columns) -> Iterator[Group]:
        """The same, with its frames of the initial state."""
        frames = _FrameRows(self._frames)
        for key, of_key in frames.of_keys(iter(rows.initial), initial):
            yield key, iter(()), of_key
        for key, of_key in frames.of_keys(rows.input, self._shape):
            yield key, of_key, iter(())

    def take(self, result: Iterable[Any], given: Given) -> None:
        """Frames."""
        for frame in result:
            if not isinstance(frame, pd.DataFrame):
                raise PySparkValueError(
                    "Invalid return type. Please make sure that the UDF returns a pandas.DataFrame when the specified "
                    "return type is StructType."
                )
            self._together.take(frame, given)


class Together:
    """Converts frames of the same columns and types together, which a frame by itself takes PySpark a millisecond.

    Spark converts each before it asks for the next one, so a processor may change what it has given, and give it again.
    """

    def __init__(self, frames: FrameForm) -> None:
        self._form = frames
        self._kind: Kind = ([], [])
        self._frames: list[Taken] = []
        self._rows = 0

    def take(self, frame: pd.DataFrame, given: Given) -> None:
        """The next one, once those before it that are of another kind are converted."""
        kind = kind_of(frame)
        if kind != self._kind or self._rows >= _TOGETHER:
            self.convert(given)
        self._kind = kind
        self._frames.append(Taken.of(frame, kind))
        self._rows += max(1, len(frame))  # one without rows takes memory, too
        if self._form.gives_mutable:
            self.convert(given)

    def convert(self, given: Given) -> None:
        """All of them. Where values need a cast, Arrow guesses by all of them: then each frame is cast by itself."""
        taken, self._frames, self._rows = self._frames, [], 0
        if len(taken) > 1:
            try:
                values = [one.values for one in taken if one.values is not None]
                copies = [one.copy for one in taken if one.copy is not None]
                frame = stacked(values, taken[0].columns) if values else pd.concat(copies, ignore_index=True)
                given.add(self._form.arrow(frame, casts=False))
                return
            except Exception:  # which of them it is, and Spark's words for it, comes out below
                pass
        for one in taken:
            given.add(self._form.arrow(one.frame))


def kind_of(frame: pd.DataFrame) -> Kind:
    """The names and types of its columns."""
    return frame.columns.tolist(), frame._mgr.get_dtypes().tolist()  # `frame.dtypes` makes a series of them


class Taken(NamedTuple):
    """What a frame has had when it was given: its values, where they are of one type of NumPy's, else a copy."""

    columns: pd.Index
    values: np.ndarray | None
    copy: pd.DataFrame | None

    @classmethod
    def of(cls, frame: pd.DataFrame, kind: Kind) -> Taken:
        """Of a frame, which may change from then on."""
        if is_plain(kind):
            return cls(frame.columns, frame.to_numpy(copy=True), None)
        return cls(frame.columns, None, frame.copy())

    @property
    def frame(self) -> pd.DataFrame:
        """The frame as it was, but for its index."""
        return pd.DataFrame(self.values, columns=self.columns) if self.copy is None else self.copy


def is_plain(kind: Kind) -> bool:
    """Whether all columns of a frame are one array of NumPy's."""
    _, types = kind
    return len({*types}) == 1 and isinstance(types[0], np.dtype)


def stacked(values: list[np.ndarray], columns: pd.Index) -> pd.DataFrame:
    """What pandas concatenates plain frames of one kind to, for which it is slow where they have few rows."""
    return pd.DataFrame(np.concatenate(values), columns=columns)


class _FrameRows:
    """Rows by keys, in frames; with the mean size that rows have had so far.

    The last key of the initial state may be the first one of the input: then both fill a frame's number of rows.
    """

    def __init__(self, frames: FrameForm) -> None:
        self._frames = frames
        self._rows = 0
        self._bytes = 0
        self._key: Key | None = None
        self._filled = 0

    def of_keys(self, batches: Iterator[pa.RecordBatch], columns: Columns) -> Iterator[tuple[Key, Iterator[Any]]]:
        """Frames of each key."""
        for key, parts in groupby(self._parts(batches, columns), key=itemgetter(0)):
            if key != self._key:
                self._key, self._filled = key, 0
            yield key, self._of_key(part for _, part in parts)

    def _parts(self, batches: Iterator[pa.RecordBatch], columns: Columns) -> Iterator[tuple[Key, _Part]]:
        for batch in self._frames.cut(batches):
            self._rows += batch.num_rows
            self._bytes += batch.nbytes
            yield from _RowBatch(self._frames, columns, batch).parts()

    def _of_key(self, parts: Iterator[_Part]) -> Iterator[pd.DataFrame]:
        first = next(parts)
        if first.is_all_of_its_key and not self._are_enough(self._filled + first.end - first.start):
            yield first.frame()
            return
        rows: list[Any] = []
        for row in chain.from_iterable(part.rows() for part in chain([first], parts)):
            rows.append(row)
            if self._are_enough(self._filled + len(rows)):
                yield first.batch.frame_of(rows)
                rows, self._filled = [], 0
        if rows:
            self._filled += len(rows)
            yield first.batch.frame_of(rows)

    def _are_enough(self, rows: int) -> bool:
        conf = self._frames.conf
        size = rows * self._bytes / self._rows if conf.most_bytes != UNLIMITED else 0
        return rows >= conf.most_rows or size >= conf.most_bytes


class _RowBatch:
    """A batch as rows of pandas, of which PySpark's worker makes frames: pandas infers the types of their columns."""

    def __init__(self, frames: FrameForm, columns: Columns, batch: pa.RecordBatch) -> None:
        self._columns = columns
        self._batch = batch
        self._series = frames.series(batch)
        self._whole = pd.concat(self._series, axis=1)

    def parts(self) -> Iterator[tuple[Key, _Part]]:
        """Runs of rows of the same key."""
        keys = zip(*(list(self._series[at]) for at in self._columns.keys), strict=True)
        start = 0
        for key, run in groupby(keys):
            end = start + sum(1 for _ in run)
            yield key, _Part(self, start, end)
            start = end

    def __len__(self) -> int:
        return len(self._whole)

    def rows(self, start: int, end: int) -> Iterator[Any]:
        """Some of them."""
        return iter(self._whole.iloc[start:end].itertuples(index=False))

    def frame_of(self, rows: list[Any]) -> pd.DataFrame:
        """A frame of rows."""
        return pd.DataFrame(rows).iloc[:, list(self._columns.values)]

    def frame(self, start: int, end: int) -> pd.DataFrame:
        """The same of rows of this batch."""
        if self._slices is not None and self._slices.are_steady(start, end):
            return self._slices.frame(start, end)
        return self.frame_of(list(self.rows(start, end)))

    @cached_property
    def _slices(self) -> Slices | None:
        columns = [
            _inferred(series, column.type) for series, column in zip(self._series, self._batch.columns, strict=True)
        ]
        if any(column is None for column in columns):
            return None
        frame = pd.concat(columns, axis=1)
        frame.columns = list(next(self.rows(0, 1))._fields)
        return Slices(frame.iloc[:, list(self._columns.values)], [])


@dataclass(frozen=True)
class _Part:
    """Rows of one key in a batch, all next to each other."""

    batch: _RowBatch
    start: int
    end: int

    @property
    def is_all_of_its_key(self) -> bool:
        """Whether the next batch cannot have more of its rows, if the batch before had none."""
        return self.end < len(self.batch)

    def rows(self) -> Iterator[Any]:
        """They."""
        return self.batch.rows(self.start, self.end)

    def frame(self) -> pd.DataFrame:
        """One frame of them."""
        return self.batch.frame(self.start, self.end)


def _inferred(series: pd.Series, kind: pa.DataType) -> pd.Series | None:
    """What pandas makes of the values of a column; None: that depends on which of its rows there are."""
    dtype = series.dtype
    if not isinstance(dtype, np.dtype):
        return None
    if dtype.kind in _INFERRED:
        return series.astype(_INFERRED[dtype.kind])
    return series if dtype.kind == "b" or is_of_objects(kind) else None


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    (joined,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
    return joined
