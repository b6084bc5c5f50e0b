"""The plan of an operator's state as a typed value, and its text.

The text is what native code parses, what stands in blocks and manifests, and what a plan's fingerprint is a hash of.
Python writes and reads it here alone, and native code in `native/core/src/plan/plan.cpp`; docs/block-format.md has its
grammar.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from pyslash.errors import InvalidPlanError
from pyslash.plan.window import TimeWindow
from pyslash.units import Micros

MOST_ROW_BITS = 12
ANY_WINDOW = TimeWindow(1, 1, 0)
"""Of plans whose groups are of no window: what is asked of them does not depend on it."""
_HEAD = "pyslash-plan 1"
_NO_COLUMNS = "-"
Records = dict[str, list[list[str]]]


@dataclass(frozen=True)
class ColumnSpec:
    """An input column: its native type, and whether it can be null."""

    type: str
    nullable: bool


@dataclass(frozen=True)
class AggregateSpec:
    """An aggregate over input columns (1-based). `ansi`: an overflow is an error; `parameter`: "" if it has none."""

    function: str
    columns: tuple[int, ...] = ()
    ansi: bool = False
    parameter: str = ""


@dataclass(frozen=True)
class SessionSpec:
    """How rows make sessions: with a gap, or each with an end of its own, column 1, if that is 0.

    `late_by_task`: rows are late by what their task's rows make of a session, not each by itself.
    """

    gap_us: int
    late_by_task: bool


@dataclass(frozen=True)
class SessionPlace:
    """Where an epoch's parts of sessions go, and the time by which sessions are over: for its update tasks alone."""

    pane: int
    evicted_us: Micros


@dataclass(frozen=True, kw_only=True)
class PlanSpec:
    """A plan. Column 0 of its rows is the event time, and `columns` are the further ones; `keys` are some of these.

    `moments`: the event time is a key; a row is late by its own time, and one without a time never is.
    `row_bits`: instead of groups its blocks have the rows themselves, in 2**row_bits buckets of hash prefixes.
    """

    window: TimeWindow
    columns: tuple[ColumnSpec, ...] = ()
    keys: tuple[int, ...] = ()
    aggregates: tuple[AggregateSpec, ...] = ()
    row_bits: int | None = None
    session: SessionSpec | None = None
    moments: bool = False
    deduplicates: bool = False
    joins: bool = False

    @cached_property
    def text(self) -> str:
        """The plan as native code and checkpoints have it."""
        return "".join(f"{line}\n" for line in self._lines())

    def placed(self, place: SessionPlace | None) -> str:
        """The text that update tasks get: with the place of an epoch's sessions, if it has one."""
        return self.text if place is None else f"{self.text}place {place.pane} {place.evicted_us}\n"

    def of_rows(self, bits: int) -> PlanSpec:
        """The same columns and keys; rows in 2**bits buckets of hash prefixes instead of aggregates."""
        return replace(self, aggregates=(), row_bits=bits)

    @classmethod
    def decode(cls, text: str) -> PlanSpec:
        """Inverse of `text`.

        Raises:
            InvalidPlanError: it is not as `text` writes a plan.
        """
        return _decoded(text)

    def _lines(self) -> Iterator[str]:
        window = self.window
        yield _HEAD
        yield f"window {window.size_us} {window.slide_us} {window.start_offset_us}"
        if self.moments:
            yield "moments"
        if self.deduplicates:
            yield "deduplicate"
        if self.joins:
            yield "join"
        if self.session is not None:
            yield f"session {self.session.gap_us} {int(self.session.late_by_task)}"
        for column in self.columns:
            yield f"column {column.type} {int(column.nullable)}"
        for key in self.keys:
            yield f"key {key}"
        for one in self.aggregates:
            read = ",".join(map(str, one.columns)) or _NO_COLUMNS
            yield f"aggregate {one.function} {read} {int(one.ansi)} {one.parameter}".rstrip()
        if self.row_bits is not None:
            yield f"rows {self.row_bits}"


@lru_cache(maxsize=64)  # a manifest has the text, and is asked for its plan in each epoch
def _decoded(text: str) -> PlanSpec:
    try:
        found = _of_records(_records(text))
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidPlanError(f"it is no plan: {error!r} in {text!r}") from None
    if found.text != text:
        raise InvalidPlanError(f"no version of pyslash writes a plan as {text!r}; {found.text!r} would be the same")
    return found


def _records(text: str) -> Records:
    """The words of each line behind its first one, by that."""
    records: Records = {}
    for line in text.split("\n"):
        name, *words = line.split(" ")
        records.setdefault(name, []).append(words)
    return records


def _of_records(records: Records) -> PlanSpec:
    """Whatever else the text has is found when the plan that is made of it is written."""
    ((size, slide, offset),) = records["window"]
    session = [SessionSpec(int(gap), late == "1") for gap, late in records.get("session", [])]
    row_bits = [int(bits) for (bits,) in records.get("rows", [])]
    return PlanSpec(
        window=TimeWindow(int(size), int(slide), int(offset)),
        columns=tuple(ColumnSpec(kind, nullable == "1") for kind, nullable in records.get("column", [])),
        keys=tuple(int(index) for (index,) in records.get("key", [])),
        aggregates=tuple(_aggregate(*words) for words in records.get("aggregate", [])),
        row_bits=row_bits[0] if row_bits else None,
        session=session[0] if session else None,
        moments="moments" in records,
        deduplicates="deduplicate" in records,
        joins="join" in records,
    )


def _aggregate(function: str, columns: str, ansi: str, parameter: str = "") -> AggregateSpec:
    read = () if columns == _NO_COLUMNS else tuple(map(int, columns.split(",")))
    return AggregateSpec(function, read, ansi == "1", parameter)
