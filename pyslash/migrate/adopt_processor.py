"""Takes over the state of a user's own code in Python from plain Spark.

    each variable, and the timers (format `statestore`)
      ──> parts: the home and the bytes of a key, and what the variable has of it
      ──> together by key: the one value that pyslash keeps of it
      ──> block files, each home's keys in its pane

Spark's partitions are pyslash's homes: both share keys by the same hash.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any

from pyspark import RDD
from pyspark.sql import Row
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from pyslash._native import Accumulator, Plan
from pyslash.migrate.adopt_state import AdoptedFile, file_name, sealed, written
from pyslash.migrate.state_source import StateSource
from pyslash.migrate.utc import utc
from pyslash.operators.transform.function import GROUP_STATE, UserFunction
from pyslash.operators.transform.plan import TransformPlan
from pyslash.operators.transform.rows import in_parts
from pyslash.operators.transform.state.key_state import NEVER_MS, KeyState
from pyslash.operators.transform.state.values import RowForm, Values
from pyslash.operators.transform.state.variables import LIST, MAP, STATE_OF_GROUP, VALUE, Variable
from pyslash.operators.transform.task import add_entries, parsed
from pyslash.plan.reasons import Uncovered
from pyslash.plan.window import NO_WATERMARK_US
from pyslash.spark.job import ours_raised
from pyslash.state.processor_blocks import first_home, key_bytes
from pyslash.units import Epoch, Run

_HOME = "partition_id"
_TIMERS = "timers"
_FIRST_PANE = 0
_BLOCK_BYTES = 64 << 20

HomeKey = tuple[int, bytes]
Part = tuple[str, str, Any]
"""Kind and name of a variable, and what `KeyState` has of it."""


def adopt_processor(plan: TransformPlan, source: StateSource, location: str, run: Run, tasks: int) -> list[AdoptedFile]:
    """Write files of the state that plain Spark has.

    Args:
        plan: of the processor that goes on with it.
        source: Spark's state.
        location: where the files go.
        run: the query's.
        tasks: so many files at most, unless they are large.

    Raises:
        Uncovered: there is state of a variable that the processor declares otherwise, or not at all.
        CheckpointError: a file cannot be written.
    """
    parts = _of_group(plan.function, source) if plan.function.takes == GROUP_STATE else _of_variables(plan, source)
    if not parts:
        return []
    by_key = source.session.sparkContext.union(parts).groupByKey(tasks, partitionFunc=itemgetter(0))
    with ours_raised():
        return list(by_key.mapPartitionsWithIndex(_WriteHomes(plan.text, location, source.epoch, run)).collect())


def _of_variables(plan: TransformPlan, source: StateSource) -> list[RDD[tuple[HomeKey, Part]]]:
    function = plan.function
    *before, last = source.starts()
    names = last.names
    variables = {one.name: one for one in function.variables}
    if hidden := sorted(set().union(*(start.names for start in before)) - names - {*function.deleted}):
        raise Uncovered(
            f"plain Spark has kept state of the variable {hidden[0]}, which its last start did not declare, so that it "
            "cannot be read. Start plain Spark once with it declared, or delete it by deleteIfExists"
        )
    others = sorted(last.variables - {*variables, *function.deleted})
    if others:
        raise Uncovered(
            f"plain Spark has state of the variable {others[0]}, which the processor does not declare, and which is "
            "not moved. Declare it, or delete it by deleteIfExists"
        )
    found = [_parts(source, function, variables[name]) for name in sorted(names & variables.keys())]
    if last.has_timers:
        timers = source.read(readRegisteredTimers=True)
        found.append(timers.rdd.mapPartitions(_TimerParts(function.key_schema)))
    return found


def _parts(source: StateSource, function: UserFunction, variable: Variable) -> RDD[tuple[HomeKey, Part]]:
    rows = source.read(stateVarName=variable.name, flattenCollectionTypes=False)
    _check(variable, rows.schema)
    return rows.rdd.mapPartitions(_VariableParts(function.key_schema, variable))


def _of_group(function: UserFunction, source: StateSource) -> list[RDD[tuple[HomeKey, Part]]]:
    rows = source.read()
    value = rows.schema["value"].dataType
    assert isinstance(value, StructType)
    (variable,) = function.variables
    if "groupState" not in value.names or not _same(value["groupState"].dataType, parsed(variable.value)):
        raise Uncovered(f"plain Spark has state of {value.simpleString()}, and the function declares another one")
    return [rows.rdd.mapPartitions(_GroupParts(function.key_schema, variable))]


def _check(variable: Variable, schema: StructType) -> None:
    """Pass if these are the rows of the variable."""
    kept = _entry(parsed(variable.value), variable)
    wanted: dict[str, tuple[str, DataType]] = {
        VALUE: ("value", kept),
        LIST: ("list_value", ArrayType(kept)),
        MAP: ("map_value", MapType(parsed(variable.key), kept) if variable.key else kept),
    }
    name, kind = wanted[variable.kind]
    if name not in schema.names or not _same(schema[name].dataType, kind):
        raise Uncovered(
            f"plain Spark has state of the variable {variable.name} as {schema.simpleString()}, and the processor "
            f"declares {variable.kept.sql}"
        )


def _entry(value: StructType, variable: Variable) -> StructType:
    return value if variable.ttl_ms is None else StructType().add("value", value).add("ttlExpirationMs", "long")


def _same(found: DataType, wanted: DataType) -> bool:
    names: tuple[str, str] = found.simpleString(), wanted.simpleString()
    return names[0] == names[1]


@dataclass(frozen=True)
class _Parts(ABC):
    """A function for `mapPartitions` over rows of Spark's state: the parts that they are."""

    key_schema: str

    def __call__(self, rows: Iterable[Row]) -> Iterator[tuple[HomeKey, Part]]:
        key_form = RowForm(parsed(self.key_schema))
        with utc():
            for row in rows:
                key = row[_HOME], key_bytes(_kept(key_form, row["key"]))
                for part in self._of(row):
                    yield key, part

    @abstractmethod
    def _of(self, row: Row) -> Iterator[Part]: ...


class _TimerParts(_Parts):
    """Of timers."""

    def _of(self, row: Row) -> Iterator[Part]:
        yield _TIMERS, "", row["expiration_timestamp_ms"]


@dataclass(frozen=True)
class _VariableParts(_Parts):
    """Of a variable."""

    variable: Variable

    @cached_property
    def _form(self) -> RowForm:
        return RowForm(parsed(self.variable.value))

    @cached_property
    def _user_key_form(self) -> RowForm:
        return RowForm(parsed(self.variable.key))

    def _of(self, row: Row) -> Iterator[Part]:
        kind = self.variable.kind
        if kind == VALUE:
            kept: Any = self._entry(row["value"])
        elif kind == LIST:
            kept = [self._entry(one) for one in row["list_value"]]
        else:
            kept = {_kept(self._user_key_form, key): self._entry(one) for key, one in row["map_value"].items()}
        yield kind, self.variable.name, kept

    def _entry(self, found: Row) -> tuple[Values, int]:
        if self.variable.ttl_ms is None:
            return _kept(self._form, found), NEVER_MS
        return _kept(self._form, found["value"]), found["ttlExpirationMs"]


class _GroupParts(_VariableParts):
    """Of the states of a function of `applyInPandasWithState`."""

    def _of(self, row: Row) -> Iterator[Part]:
        value = row["value"]
        if value["groupState"] is not None:
            yield VALUE, STATE_OF_GROUP, (_kept(self._form, value["groupState"]), NEVER_MS)
        if "timeoutTimestamp" in value and value["timeoutTimestamp"] >= 0:
            yield _TIMERS, "", value["timeoutTimestamp"]


def _kept(form: RowForm, row: Row) -> Values:
    return form.kept(row, "Error moving state")


@dataclass(frozen=True)
class _WriteHomes:
    """A function for `mapPartitionsWithIndex` over the parts of each key: the files of these homes."""

    plan: str
    location: str
    epoch: Epoch
    run: Run

    def __call__(self, partition: int, keys: Iterable[tuple[HomeKey, Iterable[Part]]]) -> Iterator[AdoptedFile]:
        entries = sorted((home, key, _state(parts)) for (home, key), parts in keys)
        for number, block in enumerate(in_parts(entries, lambda entry: len(entry[1]) + len(entry[2]), _BLOCK_BYTES)):
            accumulator = Accumulator(Plan(self.plan), NO_WATERMARK_US, self.epoch, partition)
            for home, of_home in groupby(block, key=itemgetter(0)):
                add_entries(accumulator, first_home(_FIRST_PANE) + home, [(key, kept) for _, key, kept in of_home])
            size = sum(len(key) + len(kept) for _, key, kept in block)
            name = file_name(self.epoch, self.run, number)
            yield written(self.location, self.plan, name, sealed(accumulator, size))


def _state(parts: Iterable[Part]) -> bytes:
    state = KeyState()
    for kind, name, found in parts:
        if kind == VALUE:
            state.values[name] = found
        elif kind == LIST:
            state.lists[name] = found
        elif kind == MAP:
            state.maps[name] = found
        else:
            state.timers.add(found)
    return state.kept()
