"""State as a table of Spark: `spark.read.format("slash-state").load(checkpoint)`, a Python data source.

Each task maps the block files and merges a range of hash prefixes of the keys, as a merge task of the query does. The
driver of the query is not asked, and does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pyslash.errors import InvalidInputError
from pyslash.inspect.state import dump
from pyslash.spark.running_queries import checkpoint_of, folder_of
from pyslash.state.manifest import Manifest
from pyslash.state.savepoint import location_of
from pyslash.state.stored import StoredState
from pyslash.units import Epoch

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_TIMES = ["window_start", "window_end"]
_OPTIONS = ("query", "epoch", "savepoint", "operator", "joinSide", "partitions")
# A task reads about as many bytes of state.
_PART_BYTES = 16 << 20
_MOST_PARTS = 256


def register(spark: SparkSession) -> None:
    """Let a session read the state of queries by `spark.read.format("slash-state")`.

    Filters of keys are evaluated in the tasks where Spark hands them to Python data sources: since 4.1, with
    `spark.sql.python.filterPushdown.enabled=true` when this is called. Spark refuses such a source without that.
    """
    source = FilteredStateSource if spark.conf.get(_PUSHDOWN, "false") == "true" else StateSource
    spark.dataSource.register(type(source.__name__, (source,), {"queries": str(folder_of(spark))}))


class StateSource(DataSource):  # type: ignore[misc]
    """The state of one operator of a query, as of an epoch or a savepoint. `queries`: `running_queries.folder_of`."""

    queries: str

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "slash-state"

    def schema(self) -> StructType:
        """Start and end of the window, keys and aggregates, under the names that the query gives them; of a join, the
        columns of one of its sides.

        Raises:
            InvalidInputError: an option is wrong, or Spark alone can read such state.
        """
        return from_arrow_schema(_schema(self._manifest, self._side), prefer_timestamp_ntz=True)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Spark calls it once for a query."""
        return StateReader(self._state, self._manifest, self._side, self._wanted_parts)

    @cached_property
    def _state(self) -> StoredState:
        unknown = sorted({name.lower() for name in self.options} - {"path", *map(str.lower, _OPTIONS)})
        if unknown:
            raise InvalidInputError(f"slash-state has no option {unknown[0]}; it has {', '.join(_OPTIONS)}")
        path, query = self.options.get("path", ""), self.options.get("query", "")
        if bool(path) == bool(query):
            raise InvalidInputError(
                "slash-state reads a checkpoint or a query of this application: write load(checkpointLocation), or "
                "option('query', its id or name) and load()"
            )
        path = path or checkpoint_of(Path(self.queries), query)
        if (savepoint := self.options.get("savepoint")) is not None:
            path = location_of(path, savepoint)
        return StoredState.of(path, self._number("operator") or 0)

    @cached_property
    def _manifest(self) -> Manifest:
        epoch = self._number("epoch")
        return self._state.manifest(None if epoch is None else Epoch(epoch))

    @property
    def _side(self) -> str | None:
        side: str | None = self.options.get("joinSide")
        return None if side is None else side.lower()

    @property
    def _wanted_parts(self) -> int:
        size = sum(file.bytes for file in self._manifest.files)
        # What cannot be mapped each task has to fetch as a whole.
        usual = max(1, min(_MOST_PARTS, size // _PART_BYTES)) if self._state.blocks.is_local else 1
        return self._number("partitions") or usual

    def _number(self, name: str) -> int | None:
        text = self.options.get(name)
        if text is None:
            return None
        if not text.isdecimal():
            raise InvalidInputError(f"the option {name} of slash-state is {text!r}: write a number")
        return int(text)


@dataclass(frozen=True)
class Prefixes(InputPartition):  # type: ignore[misc]
    """A range of hash prefixes."""

    first: int
    end: int


class StateReader(DataSourceReader):  # type: ignore[misc]
    """Reads one version of the state, whatever the query does meanwhile."""

    def __init__(self, state: StoredState, manifest: Manifest, side: str | None, parts: int) -> None:
        """`side`: the one that is wanted of a join; `parts`: so many tasks read it."""
        self._location = state.location
        self._manifest = manifest.encode()
        self._side = side
        self._places = _places(manifest)
        self._names = _schema(manifest, side).names
        self._parts = parts
        self._equal: dict[str, Any] = {}  # values that keys have to have

    def partitions(self) -> list[InputPartition]:
        """Equal ranges of hash prefixes."""
        cuts = [(1 << 32) * index // self._parts for index in range(self._parts + 1)]
        return [Prefixes(first, end) for first, end in pairwise(cuts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in an executor."""
        assert isinstance(partition, Prefixes)
        manifest = Manifest.decode(self._manifest, self._location)
        blocks = StoredState.at(self._location).opened(manifest)
        for merged in dump.merged(manifest, blocks, (partition.first, partition.end), side=self._side):
            named = dump.told_apart([*merged.schema][self._places])
            batch = pa.record_batch(merged.columns[self._places], named)
            for name, value in self._equal.items():
                column = batch.column(name)
                batch = batch.filter(pc.equal(column, pa.scalar(value, column.type)))
            if batch.num_rows:
                yield batch


class FilteredReader(StateReader):
    """The same, told which keys are wanted."""

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        """Takes comparisons of a key with a value that is equal to the same values in Arrow; gives back the others."""
        from pyspark.sql.datasource import EqualTo

        plan = Manifest.decode(self._manifest, self._location).identity
        first = 0 if self._places.start else len(_TIMES)
        keys = {key.sql for key in plan.keys} if plan.join else {*self._names[first : first + len(plan.keys)]}
        for one in filters:
            is_ours = isinstance(one, EqualTo) and len(one.attribute) == 1 and one.attribute[0] in keys
            if is_ours and type(one.value) in (str, int, bool) and one.attribute[0] not in self._equal:
                self._equal[one.attribute[0]] = one.value
            else:
                yield one


class FilteredStateSource(StateSource):
    """The same with a reader that takes filters."""

    def reader(self, schema: StructType) -> DataSourceReader:
        """Spark calls it once for a query."""
        return FilteredReader(self._state, self._manifest, self._side, self._wanted_parts)


def _schema(manifest: Manifest, side: str | None) -> pa.Schema:
    """What a row has: no window where all time is one, or where it is a key, and of a deduplication its keys alone."""
    plan = manifest.identity
    held = [one.sql for one in plan.aggregates if one.is_buffer]
    if held:
        raise InvalidInputError(
            f"the state of {', '.join(held)} is buffers of Spark's own code, which can be read by the query alone"
        )
    return dump.told_apart(dump.fields(manifest, side)[_places(manifest)])


def _places(manifest: Manifest) -> slice:
    """Which of the columns that are merged a row has."""
    plan = manifest.identity
    if plan.join:
        return slice(None)
    if plan.operator.startswith("deduplication"):
        return slice(len(_TIMES), len(_TIMES) + len(plan.keys))
    has_window = bool(plan.session) or not (plan.window.is_all_time or plan.spec.moments)
    return slice(None if has_window else len(_TIMES), None)
