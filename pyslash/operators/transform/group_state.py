"""A user's function of `applyInPandasWithState` over the rows of a home, as PySpark's worker runs it over a partition.

The state of a key is one variable, and its timeout a timer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkRuntimeError, PySparkTypeError
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import StructType

from pyslash.operators.transform.client import StateClient
from pyslash.operators.transform.frames import FrameForm, is_plain, kind_of, stacked
from pyslash.operators.transform.processor import Calls, Key
from pyslash.operators.transform.rows import Given, HomeRows, InputShape, runs
from pyslash.operators.transform.slices import Nature, Slices
from pyslash.operators.transform.state.key_state import NEVER_MS, time_of
from pyslash.operators.transform.state.values import RowForm, Values
from pyslash.operators.transform.state.variables import STATE_OF_GROUP, unpickled

_TIMEOUTS = {
    "None": GroupStateTimeout.NoTimeout,
    "ProcessingTime": GroupStateTimeout.ProcessingTimeTimeout,
    "EventTime": GroupStateTimeout.EventTimeTimeout,
}


class GroupStateCalls(Calls):
    """Of a function, as PySpark has pickled it.

    Args:
        command: the function.
        schema: of the state's rows.
        shape: of the input, whose `columns` these are.
        frames: converts frames.
        timers: what timeouts go by, as Spark names it of processors.
    """

    def __init__(
        self,
        command: bytes,
        schema: StructType,
        shape: InputShape,
        columns: pa.Schema,
        frames: FrameForm,
        timers: str,
    ) -> None:
        self._command = command
        self._form = RowForm(schema)
        self._schema = schema
        self._shape = shape
        self._columns = pa.schema([column.with_nullable(True) for column in columns])
        self._frames = frames
        self._timers = timers

    def over(self, client: StateClient, rows: HomeRows, given: Given) -> None:
        """Call it for the keys that have rows, and then for those whose timeout has passed by then."""
        function, results = unpickled(self._command), _Results(self._frames, given)
        for kept, parts in groupby(self._parts(rows.input, client.kept_key), key=itemgetter(0)):
            client.set_key(kept)
            first = next(parts)[1]
            frames = (part.frame() for part in chain([first], (part for _, part in parts)))
            results.take(self._called(function, client, first.key(), frames))
        results.flush()
        if self._timers != "None":
            now_ms = client.now_ms if self._timers == "ProcessingTime" else client.watermark_ms
            for kept, key in self._keys([kept for kept, _ in client.due(now_ms - 1)]):
                client.set_key(kept)
                nothing = pd.DataFrame(columns=[self._columns.names[at] for at in self._shape.values])
                results.take(self._called(function, client, key, [nothing], timed_out=True))
            results.flush()

    def _parts(
        self, batches: Iterator[pa.RecordBatch], kept: Callable[[Key], Values]
    ) -> Iterator[tuple[Values, _Part]]:
        """Rows of one key each, that are converted together, behind the key as it is kept: to Python, two times an hour
        apart are equal in the hour that a time zone has twice.
        """
        for batch in self._frames.cut(batches):
            keys = [batch.column(at) for at in self._shape.keys]
            groups = _GroupBatch(self._frames, self._shape.keys, self._shape.values, batch)
            for start, end in runs(keys):
                yield kept(tuple(key[start].as_py() for key in keys)), _Part(groups, start, end)

    def _keys(self, kept: list[Values]) -> Iterator[tuple[Values, Key]]:
        """Keys as they are kept, and as the function gets them."""
        if kept:
            fields = [self._columns.field(at) for at in self._shape.keys]
            values = zip(*kept, strict=True)
            columns = [_column(each, field.type) for each, field in zip(values, fields, strict=True)]
            batch = pa.record_batch(columns, schema=pa.schema(fields))
            places = tuple(range(len(fields)))
            keys = _GroupBatch(self._frames, places, places, batch)
            for at, key in enumerate(kept):
                yield key, keys.key(at, at + 1)

    def _called(
        self, function: Any, client: StateClient, key: Key, frames: Iterable[pd.DataFrame], timed_out: bool = False
    ) -> Iterator[pd.DataFrame]:
        """What the function gives for a key; its state is kept once that is taken."""
        state = self._state(client, timed_out)
        yield from _iterable(function(key, frames, state))
        self._keep(client, state)

    def _state(self, client: StateClient, timed_out: bool) -> GroupState:
        entry = client.state().values.get(STATE_OF_GROUP)
        return GroupState(
            optionalValue=self._form.row(entry[0]) if entry is not None else None,
            batchProcessingTimeMs=client.now_ms,
            eventTimeWatermarkMs=client.watermark_ms,
            timeoutConf=_TIMEOUTS[self._timers],
            hasTimedOut=timed_out,
            watermarkPresent=self._shape.has_time,
            defined=entry is not None,
            updated=False,
            removed=False,
            timeoutTimestamp=GroupState.NO_TIMESTAMP,
            keyAsUnsafe=b"",
            valueSchema=self._schema,
        )

    def _keep(self, client: StateClient, state: GroupState) -> None:
        """As Spark does: a call that does nothing to the state leaves the timeout that it had before, too."""
        timeout_ms = time_of(int(state._timeout_timestamp))
        has_timeout = timeout_ms != GroupState.NO_TIMESTAMP
        if state._updated or state._removed or has_timeout:
            kept = client.state()
            if state.exists:
                kept.values[STATE_OF_GROUP] = (self._form.kept(state._value, "Error updating group state"), NEVER_MS)
            else:
                kept.values.pop(STATE_OF_GROUP, None)
            kept.timers = {timeout_ms} if has_timeout else set()
            client.change()


class _GroupBatch:
    """A batch of which frames of columns that are `values` are made; `keys` are those that a key is made of."""

    def __init__(
        self, frames: FrameForm, keys: tuple[int, ...], values: tuple[int, ...], batch: pa.RecordBatch
    ) -> None:
        self._form = frames
        self._keys = keys
        self._values = values
        self._batch = batch

    def key(self, start: int, end: int) -> Key:
        """That of these rows, whose key is the same."""
        if self._slices is not None and self._slices.are_steady(start, end):
            return tuple(self._key_values[at][start] for at in self._keys)
        return tuple(one[0] for one in self._converted(start, end, self._keys))

    def frame(self, start: int, end: int) -> pd.DataFrame:
        """That of these rows."""
        if self._slices is not None and self._slices.are_steady(start, end):
            return self._slices.frame(start, end)
        return pd.concat(self._converted(start, end, self._values), axis=1)

    def _converted(self, start: int, end: int, columns: tuple[int, ...]) -> list[pd.Series]:
        rows = self._batch.slice(start, end - start)
        fields = [self._batch.schema.field(at) for at in columns]
        return self._form.series(pa.record_batch([rows.column(at) for at in columns], schema=pa.schema(fields)))

    @cached_property
    def _natures(self) -> list[Nature]:
        return [self._form.nature(column) for column in self._batch.columns]

    @cached_property
    def _series(self) -> list[pd.Series]:
        """Of the whole batch; what is fragile has zeros for nulls."""
        columns = [
            pc.fill_null(column, pa.scalar(0).cast(column.type)) if nature is Nature.FRAGILE else column
            for column, nature in zip(self._batch.columns, self._natures, strict=True)
        ]
        return self._form.series(pa.record_batch(columns, schema=self._batch.schema))

    @cached_property
    def _key_values(self) -> dict[int, Any]:
        """Its key columns, to be asked for one value after the other: arrays give what series do, and faster."""
        columns = {at: self._series[at] for at in self._keys}
        return {at: one.to_numpy() if one.dtype.kind in "iufb" else one for at, one in columns.items()}

    @cached_property
    def _slices(self) -> Slices | None:
        if Nature.UNKNOWN in self._natures:
            return None
        columns = zip(self._batch.columns, self._natures, strict=True)
        frame = pd.concat([self._series[at] for at in self._values], axis=1)
        return Slices(frame, [column for column, nature in columns if nature is Nature.FRAGILE])


@dataclass(frozen=True)
class _Part:
    """Rows of one key in a batch, all next to each other."""

    batch: _GroupBatch
    start: int
    end: int

    def key(self) -> Key:
        """As the function gets it."""
        return self.batch.key(self.start, self.end)

    def frame(self) -> pd.DataFrame:
        """One frame of them."""
        return self.batch.frame(self.start, self.end)


class _Results:
    """Frames that the function gives, and those of how many calls: Spark converts them together, padded with nulls."""

    def __init__(self, frames: FrameForm, given: Given) -> None:
        self._form = frames
        self._given = given
        self._frames: list[pd.DataFrame] = []
        self._rows = 0
        self._calls = 0

    def take(self, frames: Iterator[Any]) -> None:
        """What a call gives."""
        for frame in frames:
            self._check(frame)
            if len(frame):
                self._frames.append(frame)
                self._rows += len(frame)
                if self._rows > self._form.conf.most_rows:
                    self.flush()
        self._calls += 1

    def _check(self, frame: Any) -> None:
        if not isinstance(frame, pd.DataFrame):
            raise _not("iterator of pandas.DataFrame", f"iterator of {type(frame).__name__}")
        wanted, columns = len(self._form.names), len(frame.columns)
        if columns != wanted and not (columns == 0 and frame.empty):
            raise PySparkRuntimeError(
                errorClass="RESULT_COLUMN_SCHEMA_MISMATCH",
                messageParameters={"expected": str(wanted), "actual": str(columns)},
            )

    def flush(self) -> None:
        """Convert what there is."""
        if self._rows:
            self._given.add(self._form.arrow(self._united()).slice(0, self._rows))
        self._frames, self._rows, self._calls = [], 0, 0

    def _united(self) -> pd.DataFrame:
        missing = [*range(max(0, self._calls - self._rows))]
        kind = kind_of(self._frames[0])
        if not missing and kind[0] == self._form.names and all(kind_of(frame) == kind for frame in self._frames):
            if is_plain(kind):
                return stacked([frame.to_numpy() for frame in self._frames], self._frames[0].columns)
            return pd.concat(self._frames, ignore_index=True)
        padding = pd.DataFrame(dict.fromkeys(self._form.names), index=missing)
        return pd.concat([*self._frames, padding], ignore_index=True)


def _iterable(found: Any) -> Iterable[Any]:
    if isinstance(found, pd.DataFrame):
        raise _not("iterable of pandas.DataFrame", type(found).__name__)
    try:
        frames: Iterable[Any] = iter(found)
        return frames
    except TypeError:
        raise _not("iterable", type(found).__name__) from None


def _not(expected: str, actual: str) -> PySparkTypeError:
    return PySparkTypeError(errorClass="UDF_RETURN_TYPE", messageParameters={"expected": expected, "actual": actual})


def _column(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    """A column of values as they are kept."""
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, kind)
