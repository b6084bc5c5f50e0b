"""How the state of one query becomes that of another, which has other aggregates.

A group's state is a set of fields: each is a state of native code (docs/block-format.md) over input columns, told apart
by what they compute and not by where they stand. An aggregate of the new query continues if each field that it reads is
there. What no aggregate reads any more is dropped. An aggregate that lacks a field is *gained*: it reads columns of its
own, which exist since the batch of the change, and of which every earlier row was null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from pyslash._native import Plan
from pyslash.errors import PlanMismatchError
from pyslash.plan.change.identity import (
    Input,
    Output,
    PlanIdentity,
    changed_types,
    differences,
    in_words_of,
    key_order,
)
from pyslash.plan.spec import ANY_WINDOW, AggregateSpec, PlanSpec
from pyslash.units import Epoch

_EVERY_ROW = Output("count", (), False)
# What tells how many rows or nulls there were.
_COUNTING = ("count", "avg")
# Parameters that the same state has.
_NO_STATE = ("try", "nan", "unguarded", "own")
# A state, by its kind and the names of its columns.
Field = tuple[str, tuple[str, ...]]
# An aggregate, by its function, the parameter and its inputs' SQL and types.
Call = tuple[str, str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Evolution:
    """What a query continues with.

    `plan` is the query's, over the columns that the state has. `sources` says of each of its columns which column
    (1-based) of the query's own plan it is: a gained aggregate has columns that stand there once. `gained` are the new
    aggregates that do not cover all rows, with the batch from which on they do, and `dropped` those that are there no
    more, or the variables that a processor deletes.
    `keeps_blocks`: the state is as the plan says, and nothing of it has to be rewritten. `keys` says of each key of the
    plan which of the query's own (from 0 on) it is; nothing: they stand in the query's order.
    """

    plan: PlanIdentity
    sources: tuple[int, ...]
    gained: tuple[tuple[str, int], ...] = ()
    dropped: tuple[str, ...] = ()
    keeps_blocks: bool = False
    keys: tuple[int, ...] = ()


def unchanged(query: PlanIdentity, before: PlanIdentity | None = None) -> Evolution:
    """Of a query that has no state, or whose columns are those of `before`, whatever their names."""
    if before is not None:
        query = replace(query, first_batch=before.first_batch, is_adopted=before.is_adopted)
    return Evolution(query, tuple(range(1, len(query.inputs) + 1)), keeps_blocks=True)


def evolve(before: PlanIdentity, query: PlanIdentity, epoch: Epoch) -> Evolution:
    """What the query continues with, from `epoch` on, on state of the query that it was.

    The plan is `before` itself if the same aggregates stand in the same order, however they came to be there.

    Raises:
        PlanMismatchError: the state cannot become that of this query; the message names each field in the way.
    """
    before = in_words_of(query, before)
    changed = changed_types(before, query)
    if before == query and not changed:
        return unchanged(query)
    obstacles = changed or _obstacles(before, query)
    if obstacles:
        raise PlanMismatchError(
            "the state in the checkpoint cannot become that of this query:\n  "
            + "\n  ".join(obstacles)
            + "\nRun the query as it was, or give it a new checkpointLocation."
        )
    if before.processor is not None and query.processor is not None:
        state, dropped = before.processor.continued(query.processor)
        return replace(unchanged(replace(query, columns=(*query.columns[:-1], state.text))), dropped=dropped)
    return _Binding(before, query, epoch).evolution()


def fields(plan: PlanIdentity) -> list[Field]:
    """The states of a plan, in order."""
    names = [plan.time, *(column.name for column in plan.inputs)]
    return [(kind, tuple(names[place] for place in places)) for kind, places, _ in Plan(plan.text).states]


def _obstacles(before: PlanIdentity, query: PlanIdentity) -> list[str]:
    """What no projection of fields can bridge."""
    found = differences(before, query, aggregates=False)
    if before.session and query.session and before.session_end != query.session_end:
        found.append(f"the end of a row's session: {before.session_end} -> {query.session_end}")
    for plan in (before, query):
        places = {
            index: column.name for one in plan.aggregates for index, column in zip(one.places, one.inputs, strict=True)
        }
        names = [*places.values()]
        found += [f"two input columns are both {name}" for name in sorted({n for n in names if names.count(n) > 1})]
    gained, lost = (
        [
            one.sql
            for one in plan.aggregates
            if one.is_buffer and not any(other.is_buffer for other in beside.aggregates)
        ]
        for plan, beside in ((query, before), (before, query))
    )
    if before.is_adopted and _call(_EVERY_ROW) in _calls(query) - _calls(before):
        found.append("count(*) is new, and plain Spark, whose state this was, has not counted the rows of its groups")
    found += [f"{sql} is the first function in buffers of Spark, beside which rows count otherwise" for sql in gained]
    found += [f"{sql} was the last function in buffers of Spark, beside which rows count otherwise" for sql in lost]
    return found


def _is_read(plan: PlanIdentity, index: int) -> bool:
    """Whether the column is a key, or an aggregate's input."""
    return index in plan.key_places or any(index in one.places for one in plan.aggregates)


class _Binding:
    """Gives each aggregate of a query the columns that hold its state."""

    def __init__(self, before: PlanIdentity, query: PlanIdentity, epoch: Epoch) -> None:
        self._before = before
        self._query = query
        self._epoch = epoch
        self._held = set(fields(before))
        self._calls = _calls(before)
        self._known: dict[tuple[str, str], list[Input]] = {}
        for one in before.aggregates:
            for column in one.inputs:
                of_same = self._known.setdefault((column.sql, column.type), [])
                if column not in of_same:
                    of_same.append(column)
        for of_same in self._known.values():
            of_same.sort(key=lambda column: column.first_batch)
        self._order = key_order(before, query)
        self._keys = [query.key_places[at] for at in self._order]
        self._columns: list[Input] = []
        self._sources: list[int] = []
        # As they stood, so that nothing has to be rewritten for another order of them.
        keys = iter(dict.fromkeys(self._keys))
        for index, column in enumerate(query.inputs, 1):
            if index in self._keys:
                self._add_key(next(keys))
            elif not _is_read(query, index):
                self._columns.append(column)
                self._sources.append(index)

    def _add_key(self, index: int) -> None:
        column = self._query.inputs[index - 1]
        # By a value that could be null once, groups are found as they were.
        known = self._before.keys[self._keys.index(index)]
        self._columns.append(Input(column.sql, column.type, known.nullable))
        self._sources.append(index)

    def evolution(self) -> Evolution:
        places: list[list[int]] = []
        gained: list[tuple[str, int]] = []
        for one in self._query.aggregates:
            bound = self._bound(one)
            if bound is None:
                bound = tuple(self._new(column) for column in one.inputs)
            if not self._is_whole(one, bound):
                gained.append((one.sql, max(column.first_batch for column in bound)))
            places.append([self._add(column, source) for column, source in zip(bound, one.places, strict=True)])
        kept = _calls(self._query)
        dropped = [one.sql for one in self._before.aggregates if _call(one) not in kept]
        plan = self._plan(places)
        keys = () if self._order == sorted(self._order) else tuple(self._order)
        return Evolution(plan, tuple(self._sources), tuple(gained), tuple(dropped), plan == self._before, keys)

    def _bound(self, one: Output) -> tuple[Input, ...] | None:
        """The columns, of those that the state knows, over which all states are there that the aggregate reads."""
        if self._before.is_adopted and one.function in _COUNTING and _call(one) not in self._calls:
            return None
        candidates = [self._known.get((column.sql, column.type), []) for column in one.inputs]
        for known in product(*candidates):
            bound = tuple(
                Input(old.sql, old.type, old.nullable or column.nullable, old.first_batch)
                for old, column in zip(known, one.inputs, strict=True)
            )
            if all(field in self._held or self._follows(field) for field in self._needed(one, bound)):
                return bound
        return None

    def _new(self, column: Input) -> Input:
        # A deduplication emits no group a second time, so nobody sees what the earlier ones lack.
        first_batch = 0 if self._query.operator.startswith("deduplication") else self._epoch
        return Input(column.sql, column.type, True, first_batch)

    def _follows(self, field: Field) -> bool:
        """Whether a state that is not there is known: a column that could not be null had no null."""
        kind, names = field
        known = [column for of_same in self._known.values() for column in of_same if column.name == names[0]]
        return kind == "nulls" and not any(column.nullable for column in known)

    def _is_whole(self, one: Output, bound: tuple[Input, ...]) -> bool:
        """Whether the aggregate covers the rows that it has always covered; all rows, if it is new."""
        if all(column.first_batch == 0 for column in bound):
            return True
        names = [column.name for column in bound]
        return any(
            _call(old) == _call(one) and [column.name for column in old.inputs] == names
            for old in self._before.aggregates
        )

    def _needed(self, one: Output, bound: tuple[Input, ...]) -> Iterator[Field]:
        alone = PlanSpec(
            window=ANY_WINDOW,
            columns=tuple(column.spec for column in bound),
            aggregates=(_spec(one, range(1, len(bound) + 1)),),
        )
        plan = Plan(alone.text)
        states = plan.states
        for index in plan.needs[0]:
            kind, columns, _ = states[index]
            yield kind, tuple(bound[column - 1].name for column in columns)

    def _add(self, column: Input, source: int) -> int:
        """Index (1-based) of the column among those that the state has from now on."""
        for at, known in enumerate(self._columns):
            is_same = (
                self._sources[at] == source and known.first_batch == column.first_batch and known.type == column.type
            )
            if is_same and (known.nullable or not column.nullable):
                return at + 1
            if is_same and source not in self._query.key_places:
                self._columns[at] = column
                return at + 1
        self._columns.append(column)
        self._sources.append(source)
        return len(self._columns)

    def _plan(self, places: list[list[int]]) -> PlanIdentity:
        spec = replace(
            self._query.spec,
            columns=tuple(column.spec for column in self._columns),
            keys=tuple(self._sources.index(index) + 1 for index in self._keys),
            aggregates=tuple(_spec(one, of) for one, of in zip(self._query.aggregates, places, strict=True)),
        )
        first_batch = tuple(column.first_batch for column in self._columns)
        columns = tuple(column.sql for column in self._columns)
        adopted = self._before.is_adopted
        return PlanIdentity(spec, columns, self._query.time, first_batch if any(first_batch) else (), adopted)


def _call(one: Output) -> Call:
    """What an aggregate computes. What becomes of an overflow is decided when its result is made, and how a release of
    Spark rounds is no matter of state.
    """
    parameter = ",".join(word for word in one.parameter.split(",") if word not in _NO_STATE)
    return one.function, parameter, tuple((column.sql, column.type) for column in one.inputs)


def _calls(plan: PlanIdentity) -> set[Call]:
    return {_call(one) for one in plan.aggregates}


def _spec(one: Output, places: Iterable[int]) -> AggregateSpec:
    """The aggregate, over these columns."""
    return AggregateSpec(one.function, tuple(places), one.ansi, one.parameter)
