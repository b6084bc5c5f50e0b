"""When one query can use the state of another, and how two queries differ, in words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property

from pyslash.plan.change.processor import ProcessorState
from pyslash.plan.spec import ColumnSpec, PlanSpec
from pyslash.plan.window import TimeWindow

OF_A_PROCESSOR = "what a processor in Python has written"
"""In the place of the SQL of an event time: the state is of none."""
_OF_SPARK = re.compile(r"\b_common_expr_\d+\b")


@dataclass(frozen=True)
class Input:
    """A column that crosses into native code: the SQL of its expression, its native type, whether it can be null.

    `first_batch`: the first whose rows it covers, where an aggregate was added to a query with state; 0: all rows.
    """

    sql: str
    type: str
    nullable: bool
    first_batch: int = 0

    @property
    def name(self) -> str:
        """What tells it from the other columns of a plan's aggregates."""
        return f"{self.sql} since batch {self.first_batch}" if self.first_batch else self.sql

    @property
    def spec(self) -> ColumnSpec:
        """As a plan has it."""
        return ColumnSpec(self.type, self.nullable)


@dataclass(frozen=True)
class Output:
    """An aggregate: its function with its parameter, if it has one, its inputs, and whether overflow raises.

    `places` are those of the inputs (1-based) among the plan's columns.
    """

    function: str
    inputs: tuple[Input, ...]
    ansi: bool
    parameter: str = ""
    places: tuple[int, ...] = field(default=(), compare=False)

    @property
    def sql(self) -> str:
        """As a user would write it."""
        call = f"{self.function}({', '.join(one.name for one in self.inputs) or '*'})"
        return f"{call} {self.parameter}".rstrip()

    @property
    def is_buffer(self) -> bool:
        """Whether Spark's own code computes it, and native code keeps the buffers that it gives."""
        return self.function == "collect"

    @property
    def type(self) -> str:
        """Of its inputs."""
        return ", ".join(one.type for one in self.inputs)


@dataclass(frozen=True)
class PlanIdentity:
    """A plan, and what it lacks: the SQL of its input columns and event time.

    `first_batch` has, for each column, the first batch whose rows it covers; nothing: all columns cover all rows.
    `is_adopted`: some of the state was plain Spark's, which knows how many rows and nulls a group has only where an
    aggregate counted them (docs/design/037).
    `row_schemas`: the columns of the rows that a join keeps of its left and right side, as Spark's JSON. `types`: the
    native type of the event time, and for each column that of Spark whose values it has as bytes, or nothing;
    checkpoints that earlier builds have written do not tell them.
    `key_order`: which of the query's own keys (from 0 on) each key is, if its state has them in another order.
    """

    spec: PlanSpec
    columns: tuple[str, ...]
    time: str = ""
    first_batch: tuple[int, ...] = ()
    is_adopted: bool = False
    row_schemas: tuple[str, ...] = field(default=(), compare=False)
    types: tuple[str, ...] = field(default=(), compare=False)
    key_order: tuple[int, ...] = field(default=(), compare=False)

    @property
    def text(self) -> str:
        """The plan's text."""
        return self.spec.text

    @property
    def fingerprinted(self) -> str:
        """What the fingerprints of operators above are made of. They are in checkpoints: it stays what it has been."""
        return f"PlanIdentity(text={self.text!r}, columns={self.columns!r}, time={self.time!r})"

    @property
    def window(self) -> TimeWindow:
        """The window that rows are grouped by."""
        return self.spec.window

    @cached_property
    def operator(self) -> str:
        """What is done, in words."""
        if self.spec.joins:
            return "join"
        if self.time == OF_A_PROCESSOR:
            return "transformWithState"
        if not self.spec.deduplicates:
            return "aggregation"
        expires = any(one.function == "max" for one in self.spec.aggregates)
        return "deduplication within the watermark" if expires else "deduplication"

    @cached_property
    def join(self) -> str:
        """What is joined, as users read it; empty if nothing is."""
        if not self.spec.joins:
            return ""
        kind, *_, condition, rows = self.columns
        return f"{kind} ON {condition} OF {rows}"

    @cached_property
    def processor(self) -> ProcessorState | None:
        """What the state of a processor is told by; None: it is of none."""
        return ProcessorState.of(self.columns[-1]) if self.time == OF_A_PROCESSOR else None

    @cached_property
    def session(self) -> str:
        """The gap of the sessions that rows make, as users read it; empty if they make none."""
        session = self.spec.session
        if session is None:
            return ""
        return str(timedelta(microseconds=session.gap_us)) if session.gap_us else "each row's own"

    @cached_property
    def session_end(self) -> str:
        """The SQL of the end of a row's session, if each row has its own."""
        session = self.spec.session
        return self.columns[0] if session is not None and not session.gap_us else ""

    @property
    def is_late_by_task(self) -> bool:
        """Of sessions: whether rows are late by what their task's rows make of a session, not each by itself."""
        return self.spec.session is not None and self.spec.session.late_by_task

    @cached_property
    def inputs(self) -> list[Input]:
        """The input columns, in order."""
        first_batch = self.first_batch or (0,) * len(self.columns)
        return [
            Input(sql, column.type, column.nullable, batch)
            for sql, column, batch in zip(self.columns, self.spec.columns, first_batch, strict=True)
        ]

    @property
    def key_places(self) -> tuple[int, ...]:
        """The places (1-based) of the columns that are keys, in order."""
        return self.spec.keys

    @cached_property
    def keys(self) -> list[Input]:
        """The columns that are keys, in order."""
        return [self.inputs[index - 1] for index in self.key_places]

    @cached_property
    def aggregates(self) -> list[Output]:
        """The aggregates, in order."""
        return [
            Output(one.function, tuple(self.inputs[at - 1] for at in one.columns), one.ansi, one.parameter, one.columns)
            for one in self.spec.aggregates
        ]


def in_words_of(now: PlanIdentity, before: PlanIdentity) -> PlanIdentity:
    """What was before, by SQL of `now` wherever nothing but names of Spark's own making differs.

    Earlier builds wrote such a name, with a number that each start changes, in the place of what it stands for.
    """
    of_spark = {sql for sql in (before.time, *before.columns) if _OF_SPARK.search(sql)}
    if not of_spark:
        return before
    known = (now.time, *now.columns)
    told = {sql: next((one for one in known if _any_for_names(sql).fullmatch(one)), sql) for sql in of_spark}
    columns = tuple(told.get(sql, sql) for sql in before.columns)
    return replace(before, columns=columns, time=told.get(before.time, before.time))


def _any_for_names(sql: str) -> re.Pattern[str]:
    """SQL like this, with the same SQL everywhere in the place of a name of Spark's own making."""
    parts, names = _OF_SPARK.split(sql), _OF_SPARK.findall(sql)
    found = re.escape(parts[0])
    for at, (name, part) in enumerate(zip(names, parts[1:], strict=True)):
        found += (f"(?P={name})" if name in names[:at] else f"(?P<{name}>.+)") + re.escape(part)
    return re.compile(found, re.DOTALL)


def differences(before: PlanIdentity, now: PlanIdentity, aggregates: bool = True) -> list[str]:
    """Each difference, as one line. Empty if one query can use the state of the other.

    Without `aggregates`, only those that are in the way whatever is aggregated; a key that could be null may cease to.
    """
    before = in_words_of(now, before)
    if before == now:
        return []
    found = []
    if before.operator != now.operator:
        found.append(f"the operator: {before.operator} -> {now.operator}")
    if before.window != now.window:
        found.append(f"the window: {before.window} -> {now.window}")
    if before.session != now.session:
        found.append(f"sessions: {before.session or 'none'} -> {now.session or 'none'}")
    if before.join != now.join:
        found.append(f"the join: {before.join or 'none'} -> {now.join or 'none'}")
        return found
    if before.time != now.time:
        found.append(f"the event time: {before.time} -> {now.time}")
    found += _keys(before, now, aggregates)
    if before.processor is not None and now.processor is not None:
        return found + before.processor.obstacles(now.processor)
    if not aggregates:
        return found
    found += _aggregates(before, now)
    if not found:
        listed = (" ".join(f"{one.sql} {_type(one)}" for one in plan.inputs) for plan in (before, now))
        found.append("the input columns: {} -> {}".format(*listed))
    return found


def changed_types(before: PlanIdentity, now: PlanIdentity) -> list[str]:
    """What has another type of Spark's under the same name, as one line each, as far as both queries tell."""
    found = []
    if before.time == now.time and any(map(_differ, before.types[:1], now.types[:1])):
        found.append(f"the event time {now.time}: {before.types[0]} -> {now.types[0]}")
    known = {sql: kind for sql, kind in zip(before.columns, before.types[1:], strict=False) if kind}
    for sql, kind in zip(now.columns, now.types[1:], strict=False):
        if kind and known.get(sql, kind) != kind:
            found.append(f"{sql}: {known[sql]} -> {kind}")
    return found


def may_be_renamed(before: PlanIdentity, now: PlanIdentity) -> bool:
    """Whether nothing but the names of columns may differ, in their places.

    Names alone tell one join from another, and a processor, and functions in buffers of Spark's: their plans are alike.
    """
    if before.spec != now.spec or before.join != now.join or now.time == OF_A_PROCESSOR:
        return False
    if any(old.is_buffer and old.sql != new.sql for old, new in zip(before.aggregates, now.aggregates, strict=True)):
        return False
    same_places = key_order(before, now) == [*range(len(now.keys))]
    return same_places and not any(map(_differ, before.types, now.types))


def _differ(one: str, other: str) -> bool:
    """Whether two types differ, if both are told."""
    return bool(one and other and one != other)


def key_order(before: PlanIdentity, now: PlanIdentity) -> list[int]:
    """Which of a query's keys (from 0 on) takes the place of each key that its state has.

    Rows are equal by all of a deduplication's keys, in whatever order `dropDuplicates` names them.
    """
    held, named = ([(key.sql, key.type) for key in plan.keys] for plan in (before, now))
    is_unique = before.operator == now.operator and now.operator.startswith("deduplication")
    if is_unique and sorted(held) == sorted(named) and len(set(named)) == len(named):
        return [named.index(key) for key in held]
    return [*range(len(named))]


def _keys(before: PlanIdentity, now: PlanIdentity, is_strict: bool) -> list[str]:
    found = []
    keys = now.keys if is_strict else [now.keys[at] for at in key_order(before, now)]
    for index in range(max(len(before.keys), len(keys))):
        old, new = _at(before.keys, index), _at(keys, index)
        if old is None and new is not None:
            found.append(f"a key added: {new.sql} ({_type(new)})")
        elif new is None and old is not None:
            found.append(f"a key dropped: {old.sql} ({_type(old)})")
        elif old is not None and new is not None and not _is_same_key(old, new, is_strict):
            found.append(f"key {index + 1}: {old.sql} ({_type(old)}) -> {new.sql} ({_type(new)})")
    return found


def _aggregates(before: PlanIdentity, now: PlanIdentity) -> list[str]:
    old, new = {one.sql: one for one in before.aggregates}, {one.sql: one for one in now.aggregates}
    found = [f"an aggregate dropped: {sql}" for sql in old if sql not in new]
    found += [f"an aggregate added: {sql}" for sql in new if sql not in old]
    for sql in [sql for sql in old if sql in new]:
        if old[sql].type != new[sql].type:
            found.append(f"{sql}: over {old[sql].type} -> over {new[sql].type}")
        if old[sql].ansi != new[sql].ansi:
            rule = {True: "an error", False: "no error"}
            found.append(f"{sql}, when it overflows: {rule[old[sql].ansi]} -> {rule[new[sql].ansi]}")
    if not found and [*old] != [*new]:
        found.append(f"the order of the aggregates: {', '.join(old)} -> {', '.join(new)}")
    return found


def _is_same_key(old: Input, new: Input, is_strict: bool) -> bool:
    if (old.sql, old.type) != (new.sql, new.type):
        return False
    return old.nullable == new.nullable or (old.nullable and not is_strict)


def _type(column: Input) -> str:
    return f"{column.type}" if column.nullable else f"{column.type}, never null"


def _at(columns: list[Input], index: int) -> Input | None:
    return columns[index] if index < len(columns) else None
