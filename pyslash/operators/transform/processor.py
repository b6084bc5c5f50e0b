"""A user's `StatefulProcessor` over the rows of a home, as PySpark's worker runs it over those of a partition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorHandleState
from pyspark.sql.streaming.stateful_processor_util import TransformWithStateInPandasFuncMode as Mode
from pyspark.sql.types import Row

from pyslash.operators.transform.client import StateClient, StateHandle
from pyslash.operators.transform.rows import Given, listed, runs
from pyslash.operators.transform.values import RowForm
from pyslash.operators.transform.variables import Variable, loaded, processor_of

Key = tuple[Any, ...]


class Calls(ABC):
    """How a user's function is called for the keys of a home."""

    @abstractmethod
    def over(self, client: StateClient, batches: Iterator[pa.RecordBatch], given: Given) -> None:
        """Call it for the keys that have rows in these batches, sorted by them, and for those that are due."""


class ProcessorCalls(Calls):
    """Of a processor, as PySpark has pickled it; `variables` are those that it has declared in the driver."""

    def __init__(self, command: bytes, variables: tuple[Variable, ...], forms: dict[str, RowForm]) -> None:
        self._command = command
        self._variables = {one.name: one for one in variables}
        self._forms = forms

    def over(self, client: StateClient, batches: Iterator[pa.RecordBatch], given: Given) -> None:
        """Call it."""
        wrapper = loaded(self._command)
        processor_of(wrapper).init(StateHandle(client, self._variables, self._forms))
        client.set_handle_state(StatefulProcessorHandleState.INITIALIZED)
        call: Any = wrapper.transformWithStateUDF
        for key, rows in self.groups(batches):
            self.take(call(client, Mode.PROCESS_DATA, key, rows), given)
        self.take(call(client, Mode.PROCESS_TIMER, None, iter(())), given)
        self.take(call(client, Mode.COMPLETE, None, iter(())), given)

    @abstractmethod
    def groups(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Key, Iterator[Any]]]:
        """What the processor gets of each key."""

    @abstractmethod
    def take(self, result: Iterable[Any], given: Given) -> None:
        """What it gives, which it may make as it is taken."""


class RowCalls(ProcessorCalls):
    """Of a processor that takes and gives rows; `keys` are the places of the key among the columns."""

    def __init__(
        self, command: bytes, variables: tuple[Variable, ...], forms: dict[str, RowForm], keys: tuple[int, ...]
    ) -> None:
        super().__init__(command, variables, forms)
        self._keys = keys

    def groups(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Key, Iterator[Row]]]:
        """Its rows."""
        for key, parts in groupby(self._parts(batches), key=itemgetter(0)):
            yield key, chain.from_iterable(rows for _, rows in parts)

    def _parts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Key, Iterator[Row]]]:
        """Runs of rows of the same key."""
        for batch in batches:
            names = Row(*batch.schema.names)
            rows = list(zip(*map(listed, batch.columns), strict=True))
            for start, end in runs([batch.column(at) for at in self._keys]):
                yield tuple(rows[start][at] for at in self._keys), _named(names, rows[start:end])

    def take(self, result: Iterable[Row], given: Given) -> None:
        """Rows."""
        given.take(result)


def _named(names: Row, rows: list[tuple[Any, ...]]) -> Iterator[Row]:
    """What `names(*row)` makes of each: PySpark looks at every value once more."""
    for values in rows:
        row = tuple.__new__(Row, values)
        row.__fields__ = names
        yield row
