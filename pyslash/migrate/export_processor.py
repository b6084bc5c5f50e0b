"""What `pyslash state export` writes of the state of a user's own code in Python: what `adopt_processor` takes, back.

    block files ──> homes: key -> what pyslash keeps of it ──> rows, made by tasks
      ──> of a processor: one for each value, entry and timer, which Spark's own handle puts into its store
      ──> of a group's state: one for each key, as Spark's store has it

Homes are Spark's partitions: both share keys by the same hash.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StructType

from pyslash._native import Head, Merger, Plan
from pyslash.errors import InvalidInputError
from pyslash.migrate.state_source import ProcessorStart, StateSource
from pyslash.migrate.utc import utc
from pyslash.operators.transform.state.key_state import NEVER_MS, Entry, KeyState
from pyslash.operators.transform.state.values import RowForm, Values
from pyslash.operators.transform.state.variables import LIST, MAP, STATE_OF_GROUP, VALUE
from pyslash.operators.transform.task import parsed
from pyslash.plan.change.processor import KeptVariable
from pyslash.state.files.block_file import ALL_PREFIXES, merge_stored
from pyslash.state.manifest import Manifest
from pyslash.state.processor_blocks import key_of, panes_of_homes
from pyslash.state.stored import StoredState

_PANE, _KEY, _STATE = 0, 2, 3  # columns of merged rows
_NO_TIMEOUT_MS = -1
_COLUMNS: dict[str, str] = {VALUE: "value", LIST: "list_value", MAP: "map_value"}  # of Spark's reader
Home = list[tuple[bytes, bytes]]
"""The key and the state of each of its keys."""


@dataclass(frozen=True)
class SparkVariable:
    """A variable as Spark's state has it. Schemas are Spark's JSON; `key` is that of a map's keys."""

    name: str
    kind: str
    value: str
    key: str
    expires: bool


@dataclass(frozen=True)
class ExportProcessor:
    """The state of a processor. `variables` are those that Spark's last start declares."""

    state: StoredState
    manifest: Manifest
    start: ProcessorStart
    key: str
    variables: tuple[SparkVariable, ...]

    @classmethod
    def of(cls, state: StoredState, manifest: Manifest, source: StateSource) -> ExportProcessor:
        """As Spark's metadata of the last start tells it.

        Raises:
            InvalidInputError: there is state of a variable that was not declared then, or none was.
            CheckpointError: Spark's metadata cannot be read.
            Uncovered: there is none.
        """
        start = source.starts()[-1]
        processor = manifest.identity.processor
        assert processor is not None
        if others := sorted(processor.by_name.keys() - start.names):
            raise InvalidInputError(
                f"there is state of the variable {others[0]}, which the query's last start did not declare, so that "
                "Spark would not take it. Start the query once with it declared, or delete it by deleteIfExists"
            )
        if unknown := sorted(start.variables - processor.by_name.keys()):
            raise InvalidInputError(
                f"an older pyslash has written the state of the variable {unknown[0]}, without its types. Start the "
                "query once with this one"
            )
        if not start.names:
            raise InvalidInputError("the query's processor declares no variable, so there is no state to export")
        found = [_variable(source, one) for one in processor.variables]
        key = found[0][0] if found else source.read(readRegisteredTimers=True).schema["key"].dataType.json()
        return cls(state, manifest, start, key, tuple(variable for _, variable in found))

    def rows(self, session: SparkSession, partitions: int) -> DataFrame:
        """An entry each, as the JVM's `ProcessorExport` takes them, in the partitions of Spark's store."""
        schema = StructType().add("key", parsed(self.key)).add("variable", IntegerType()).add("expiry", LongType())
        for at, variable in enumerate(self.variables):
            schema = schema.add(f"value{at}", parsed(variable.value))
            if variable.key:
                schema = schema.add(f"key{at}", parsed(variable.key))
        task = _Entries(self.key, self.variables, self.manifest.timestamp_ms)
        return _frame(session, self.state, self.manifest, partitions, task, schema)

    def read(self, source: StateSource) -> int:
        """How many entries Spark reads."""
        tables = [source.read(stateVarName=variable.name) for variable in self.variables]
        if self.start.has_timers:
            tables.append(source.read(readRegisteredTimers=True))
        return sum(table.count() for table in tables)


@dataclass(frozen=True)
class ExportGroupStates:
    """The states of a function of `applyInPandasWithState`, by the schemas of Spark's store."""

    state: StoredState
    manifest: Manifest
    key: StructType
    value: StructType

    def __post_init__(self) -> None:
        if "groupState" not in self.value.names:
            raise InvalidInputError(
                f"Spark's store has the state of groups as {self.value.simpleString()}, by an old "
                "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion"
            )

    def rows(self, session: SparkSession, partitions: int) -> DataFrame:
        """Fields of Spark's keys and values, side by side, in the partitions of Spark's store."""
        schema = StructType([*self.key.fields, *self.value.fields])
        task = _GroupStates(self.key.json(), self.value.json())
        return _frame(session, self.state, self.manifest, partitions, task, schema)


def _variable(source: StateSource, kept: KeptVariable) -> tuple[str, SparkVariable]:
    """The schema of its keys, and itself."""
    schema = source.read(stateVarName=kept.name, flattenCollectionTypes=False).schema
    found: Any = schema[_COLUMNS[kept.kind]].dataType
    user_key = ""
    if isinstance(found, ArrayType):
        found = found.elementType
    elif isinstance(found, MapType):
        user_key, found = found.keyType.json(), found.valueType
    value = found["value"].dataType if kept.expires else found
    variable = SparkVariable(kept.name, kept.kind, value.json(), user_key, kept.expires)
    return schema["key"].dataType.json(), variable


def _frame(
    session: SparkSession, state: StoredState, manifest: Manifest, partitions: int, task: _Rows, schema: StructType
) -> DataFrame:
    """The rows that a task makes of the keys of each home, each home's in its own partition."""
    homes = session.sparkContext.parallelize(_homes(state, manifest, partitions), partitions)
    return session.createDataFrame(homes.mapPartitions(task), schema, verifySchema=False)


def _homes(state: StoredState, manifest: Manifest, partitions: int) -> list[Home]:
    """What has state, by its home."""
    homes: list[Home] = [[] for _ in range(partitions)]
    blocks = state.blocks_of(manifest)
    first, end = panes_of_homes(manifest.pane)
    held = sorted({pane for block in blocks for pane, _, _ in Head(block.head).panes if first <= pane < end})
    if not held:
        return homes
    merger = Merger(Plan(manifest.plan), held, *ALL_PREFIXES)
    for batch in merge_stored(merger, (first, end), ALL_PREFIXES, blocks):
        columns = (batch.column(_PANE).cast("int64"), batch.column(_KEY), batch.column(_STATE))
        for pane, key, kept in zip(*(column.to_pylist() for column in columns), strict=True):
            if kept:
                homes[pane - first].append((key, kept))
    return homes


@dataclass(frozen=True)
class _Rows(ABC):
    """A function for `mapPartitions` over homes: rows of their state."""

    key_schema: str

    @cached_property
    def _key_form(self) -> RowForm:
        return RowForm(parsed(self.key_schema))

    def __call__(self, homes: Iterable[Home]) -> Iterator[tuple[Any, ...]]:
        with utc():
            for key, kept in chain.from_iterable(homes):
                yield from self._of(self._key_form.given(key_of(key)), KeyState.read(kept))

    @abstractmethod
    def _of(self, key: Values, state: KeyState) -> Iterator[tuple[Any, ...]]: ...


@dataclass(frozen=True)
class _Entries(_Rows):
    """Of a processor. What has expired by a time is no entry any more."""

    variables: tuple[SparkVariable, ...]
    now_ms: int

    @cached_property
    def _forms(self) -> list[tuple[RowForm, RowForm | None]]:
        return [(RowForm(parsed(one.value)), RowForm(parsed(one.key)) if one.key else None) for one in self.variables]

    @cached_property
    def _widths(self) -> list[int]:
        return [2 if one.key else 1 for one in self.variables]

    def _of(self, key: Values, state: KeyState) -> Iterator[tuple[Any, ...]]:
        state.expire(self.now_ms)
        for at, variable in enumerate(self.variables):
            before, behind = sum(self._widths[:at]), sum(self._widths[at + 1 :])
            for expiry, *values in self._entries(at, variable, state):
                given = *(None,) * before, *values, *(None,) * behind
                yield key, at, None if expiry == NEVER_MS else expiry, *given
        for timer in sorted(state.timers):
            yield key, None, timer, *(None,) * sum(self._widths)

    def _entries(self, at: int, variable: SparkVariable, state: KeyState) -> Iterator[tuple[Any, ...]]:
        """When an entry expires, its value, and its key if the variable is a map."""
        form, key_form = self._forms[at]
        if key_form is not None:
            for user_key, (value, expiry) in state.maps.get(variable.name, {}).items():
                yield expiry, form.given(value), key_form.given(user_key)
            return
        entries: list[Entry] = state.lists.get(variable.name, [])
        if variable.kind == VALUE:
            entries = [state.values[variable.name]] if variable.name in state.values else []
        for value, expiry in entries:
            yield expiry, form.given(value)


@dataclass(frozen=True)
class _GroupStates(_Rows):
    """Of the states of groups."""

    value_schema: str

    @cached_property
    def _names(self) -> list[str]:
        names: list[str] = parsed(self.value_schema).names
        return names

    @cached_property
    def _form(self) -> RowForm:
        of_group = parsed(self.value_schema)["groupState"].dataType
        assert isinstance(of_group, StructType)
        return RowForm(of_group)

    def _of(self, key: Values, state: KeyState) -> Iterator[tuple[Any, ...]]:
        kept = state.values.get(STATE_OF_GROUP)
        values = {
            "groupState": None if kept is None else self._form.given(kept[0]),
            "timeoutTimestamp": min(state.timers, default=_NO_TIMEOUT_MS),
        }
        yield *key, *(values[name] for name in self._names)
