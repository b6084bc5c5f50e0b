"""A user's `StatefulProcessor` over the rows of a home, as PySpark's worker runs it over those of a partition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice, repeat
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorHandleState
from pyspark.sql.streaming.stateful_processor_util import TransformWithStateInPandasFuncMode as Mode
from pyspark.sql.types import Row

from pyslash.operators.transform.client import StateClient, StateHandle
from pyslash.operators.transform.function import UserFunction
from pyslash.operators.transform.row_class import row_class
from pyslash.operators.transform.rows import Columns, Given, HomeRows, InputShape, listed, runs
from pyslash.operators.transform.state.values import RowForm
from pyslash.operators.transform.state.variables import loaded, processor_of

Key = tuple[Any, ...]
Group = tuple[Any, ...]
"""A key, its rows, and, with an initial state to take, its rows of that."""


class Calls(ABC):
    """How a user's function is called for the keys of a home."""

    @abstractmethod
    def over(self, client: StateClient, rows: HomeRows, given: Given) -> None:
        """Call it for the keys that have rows, and for those that are due."""


class ProcessorCalls(Calls):
    """Of a processor."""

    def __init__(self, function: UserFunction, forms: dict[str, RowForm], shape: InputShape) -> None:
        self._function = function
        self._variables = {one.name: one for one in function.variables}
        self._forms = forms
        self._shape = shape

    def over(self, client: StateClient, rows: HomeRows, given: Given) -> None:
        """Call it."""
        wrapper = loaded(self._function.command)
        processor_of(wrapper).init(StateHandle(client, self._variables, self._function.deleted, self._forms))
        client.set_handle_state(StatefulProcessorHandleState.INITIALIZED)
        initial = self._shape.initial
        call: Any = wrapper.transformWithStateUDF if initial is None else wrapper.transformWithStateWithInitStateUDF
        groups = self.groups(rows.input) if initial is None else self.groups_with_initial(rows, initial)
        for group in groups:
            self.take(call(client, Mode.PROCESS_DATA, *group), given)
        self.take(call(client, Mode.PROCESS_TIMER, None, iter(())), given)
        self.take(call(client, Mode.COMPLETE, None, iter(())), given)

    @abstractmethod
    def groups(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Group]:
        """What the processor gets of each key."""

    @abstractmethod
    def groups_with_initial(self, rows: HomeRows, initial: Columns) -> Iterator[Group]:
        """The same in an epoch that takes an initial state: all keys of that come before those of the input."""

    @abstractmethod
    def take(self, result: Iterable[Any], given: Given) -> None:
        """What it gives, which it may make as it is taken."""


class RowCalls(ProcessorCalls):
    """Of a processor that takes and gives rows. With an initial state it gets at most `most_rows` in a call."""

    def __init__(
        self,
        function: UserFunction,
        forms: dict[str, RowForm],
        shape: InputShape,
        most_rows: int,
    ) -> None:
        super().__init__(function, forms, shape)
        self._most_rows = most_rows

    def groups(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Group]:
        """Its rows."""
        return _rows_of_keys(batches, self._shape)

    def groups_with_initial(self, rows: HomeRows, initial: Columns) -> Iterator[Group]:
        """Its rows, with a call for each chunk."""
        chunks = _Chunks(self._most_rows)
        for key, of_key in _rows_of_keys(iter(rows.initial), initial):
            for chunk in chunks.of(key, of_key):
                yield key, iter(()), iter(chunk)
        for key, of_key in _rows_of_keys(rows.input, self._shape):
            for chunk in chunks.of(key, of_key):
                yield key, iter(chunk), iter(())

    def take(self, result: Iterable[Row], given: Given) -> None:
        """Rows."""
        given.take(result)


class _Chunks:
    """Cuts rows of keys into chunks that are full, but for the last one of a key.

    Spark hands over all rows of keys that follow each other in this way, and a key may be the last one of the initial
    state and the first one of the input: the input then begins with what is left of a chunk.
    """

    def __init__(self, most_rows: int) -> None:
        self._most_rows = most_rows
        self._key: Key | None = None
        self._filled = 0

    def of(self, key: Key, rows: Iterator[Row]) -> Iterator[list[Row]]:
        """Those of the next key."""
        if key != self._key:
            self._key, self._filled = key, 0
        while chunk := list(islice(rows, self._most_rows - self._filled)):
            self._filled = (self._filled + len(chunk)) % self._most_rows
            yield chunk


def _rows_of_keys(batches: Iterator[pa.RecordBatch], columns: Columns) -> Iterator[tuple[Key, Iterator[Row]]]:
    for key, parts in groupby(_parts(batches, columns.keys), key=itemgetter(0)):
        yield key, chain.from_iterable(map(itemgetter(1), parts))


def _parts(batches: Iterator[pa.RecordBatch], keys: tuple[int, ...]) -> Iterator[tuple[Key, list[Row]]]:
    """Runs of rows of the same key."""
    for batch in batches:
        columns = [listed(column) for column in batch.columns]
        row = row_class(tuple(batch.schema.names))
        rows = [*map(tuple.__new__, repeat(row), zip(*columns, strict=True))]
        bounds = [*runs([batch.column(at) for at in keys])]
        starts = [start for start, _ in bounds]
        of_runs = zip(*(map(columns[at].__getitem__, starts) for at in keys), strict=True)
        for key, (start, end) in zip(of_runs, bounds, strict=True):
            yield key, rows[start:end]
