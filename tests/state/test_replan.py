"""State carried from a query to one with other aggregates, against the oracle of the native core's tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyslash import _native
from pyslash.migrate.spark_buffers import SparkBuffers
from pyslash.migrate.spark_columns import columns_of
from pyslash.plan.change.evolution import Evolution, evolve, unchanged
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.spec import PlanSpec
from pyslash.state.files.block_file import StoredBlock, decode, encode
from pyslash.state.replan import joined, replanned
from tests.native.arrow import read_all, to_batch, to_values
from tests.native.blocks import LONG_AGO, PREFIXES, new_arena, sealed
from tests.native.model import Functions, Query, Row, evaluate
from tests.native.strategies import VALUES

_FUNCTIONS = ("count", "min", "max")
_OF_NUMBERS = {"int": ("sum", "avg", "bit_and", "bit_xor"), "float": ("sum", "avg"), "decimal": ("sum", "avg")}
# A group of all rows counts these, and one of which no row has been seen has these results.
_NOTHING = {"count": 0}


@dataclass(frozen=True)
class Phase:
    """A query over the columns `k, c0, c1, ...` of its rows, of which it reads those of its aggregates."""

    query: Query

    @property
    def read(self) -> list[int]:
        """The columns that cross into native code, as Spark's plan would have them: keys, then as they are read."""
        return list(dict.fromkeys([1, *(place for _, place in self.query.aggregates if place is not None)]))

    @property
    def identity(self) -> PlanIdentity:
        places = {place: at for at, place in enumerate(self.read, 1)}
        columns = tuple(self.query.columns[place - 1] for place in self.read)
        aggregates = tuple((name, None if place is None else places[place]) for name, place in self.query.aggregates)
        text = replace(self.query, columns=columns, aggregates=aggregates).text
        return PlanIdentity(
            PlanSpec.decode(text), tuple("k" if place == 1 else f"c{place - 2}" for place in self.read), "ts"
        )

    def block(self, evolution: Evolution, rows: Sequence[Row]) -> StoredBlock:
        """Rows as tasks would send them to the state that the query continues with."""
        sources = [self.read[place - 1] for place in evolution.sources]
        carried = [(row[0], *(row[place] for place in sources)) for row in rows]
        columns = tuple((column.type, column.nullable) for column in evolution.plan.inputs)
        return stored(evolution.plan.text, replace(self.query, columns=columns), carried)


def stored(text: str, query: Query, rows: list[Row]) -> StoredBlock:
    with new_arena(8 << 20) as arena:
        head = _native.Head(sealed(_native.Plan(text), arena, [to_batch(query, rows)]))
        (block,) = decode(encode(text, [arena.view(head.arena_offset, head.length)]), "file")
        return block


def whole(block: StoredBlock) -> bytes:
    return bytes(block.head) + b"".join(bytes(data) for _, data in block.segments)


def merged(text: str, blocks: list[bytes], windows: list[int]) -> list[tuple[Any, ...]]:
    plan = _native.Plan(text)
    merger = _native.Merger(plan, windows)
    for block in blocks:
        for at, length in _native.Head(block).ranges(LONG_AGO, -LONG_AGO, 0, PREFIXES):
            aligned = pa.allocate_buffer(length)
            memoryview(aligned).cast("B")[:] = block[at : at + length]
            merger.add(block, at, aligned)
    return to_values(read_all(merger, plan))


@st.composite
def changes(draw: st.DrawFn) -> list[tuple[Phase, list[Row]]]:
    """Queries of one key, each with the rows that came while it ran, as (time, key, c0, c1, ...)."""
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    every: list[tuple[str, int | None]] = [("count", None)]
    for place, kind in enumerate(kinds, 2):
        allowed = (*_FUNCTIONS, *(one for start, of in _OF_NUMBERS.items() if kind.startswith(start) for one in of))
        every += [(function, place) for function in allowed]
    every += [("sum", 1), ("max", 1)]
    phases = []
    key = True
    for _ in range(3):
        key = key and draw(st.booleans())  # a key that could be null may cease to
        nullable = [draw(st.booleans()) for _ in kinds]
        columns = (("int64", key), *zip(kinds, nullable, strict=True))
        aggregates = tuple(draw(st.lists(st.sampled_from(every), min_size=1, max_size=5, unique=True)))
        values = [
            st.integers(0, 40),
            st.none() | st.integers(0, 3) if key else st.integers(0, 3),
            *(st.none() | VALUES[kind] if may else VALUES[kind] for kind, may in zip(kinds, nullable, strict=True)),
        ]
        rows = draw(st.lists(st.tuples(*values), min_size=1, max_size=6))
        phases.append((Phase(Query(10, 5, 0, columns, (1,), aggregates)), rows))
    return phases


@given(changes())
@settings(deadline=None, max_examples=150)
def test_an_aggregate_covers_all_rows_or_those_since_it_was_gained(phases: list[tuple[Phase, list[Row]]]) -> None:
    began: dict[tuple[str, int | None], int] = {}  # the phase from which on an aggregate has rows
    blocks: list[StoredBlock] = []
    before: PlanIdentity | None = None
    for number, (phase, rows) in enumerate(phases):
        query = phase.identity
        evolution = unchanged(query) if before is None else evolve(before, query, number)
        if before is not None:
            again = evolve(evolution.plan, query, number + 10)
            assert again.plan == evolution.plan  # started once more, it finds what it has left
            assert (again.gained, again.dropped, again.keeps_blocks) == ((), (), True)
            blocks = [
                stored_of(replanned(block, before, evolution.plan)) if not evolution.keeps_blocks else block
                for block in blocks
            ]
        before = evolution.plan
        by_name = dict(zip([one.sql for one in query.aggregates], phase.query.aggregates, strict=True))
        gained = {by_name[name]: since for name, since in evolution.gained}
        began = {one: gained.get(one, began.get(one, 0)) for one in phase.query.aggregates}
        if number == 0:
            assert not gained
        assert ("count", None) not in gained
        blocks.append(phase.block(evolution, rows))
    last = phases[-1][0].query
    seen = [[row for _, rows in phases[since:] for row in rows] for since in range(len(phases))]
    expected = [evaluate(last, rows, LONG_AGO) for rows in seen]
    assert before is not None
    windows = sorted({group[0] for group in expected[0]})
    found = {row[:3]: row[3:] for row in merged(before.text, [whole(block) for block in blocks], windows)}
    assert found.keys() == expected[0].keys()
    for group, results in found.items():
        for at, one in enumerate(last.aggregates):
            of_rows = expected[began[one]].get(group)
            should = of_rows[at] if of_rows is not None else _NOTHING.get(one[0])
            assert _near(results[at]) == _near(should), (group, one, began[one])


def stored_of(block: bytes) -> StoredBlock:
    text = _native.Head(block).plan_text
    (found,) = decode(encode(text, [pa.py_buffer(block)]), "file")
    return found


def _near(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) else value


TWO = Functions(10, 10, 0, (("int64", True), ("string", True), ("int32", True)), (1,))
ROWS: list[Row] = [(1, 1, "a", 5), (2, 1, "b", 7), (3, 2, None, 1), (4, 3, "c", None)]


def test_functions_of_several_columns_are_carried_over() -> None:
    old = replace(TWO, lines=("max_by 2,3 0", "first 2 0", "count - 0"))
    now = replace(
        TWO, columns=(*TWO.columns, ("float64", True)), lines=("first 2 0", "var_pop 4 0", "max_by 2,3 0", "last 4 0")
    )
    before, after = (
        PlanIdentity(PlanSpec.decode(query.text), columns)
        for query, columns in ((old, ("k", "s", "v")), (now, ("k", "s", "v", "x")))
    )
    evolution = evolve(before, after, 7)
    assert evolution.gained == (("var_pop(x)", 7), ("last(x)", 7))
    assert evolution.dropped == ("count(*)",)
    block = replanned(stored(old.text, old, ROWS), before, evolution.plan)
    assert sorted(merged(evolution.plan.text, [block], [0])) == [
        (0, 10, 1, "a", None, "b", None),
        (0, 10, 2, None, None, None, None),
        (0, 10, 3, "c", None, None, None),
    ]


def test_an_export_to_spark_has_what_a_gained_aggregate_has_seen() -> None:
    old = Query(10, 10, 0, (("int64", True), ("int32", True)), (1,), (("sum", 2),))
    before = PlanIdentity(PlanSpec.decode(old.text), ("k", "v"))
    now = PlanIdentity(PlanSpec.decode(replace(old, aggregates=(("max", 2), ("sum", 2))).text), ("k", "v"))
    evolution = evolve(before, now, 7)
    block = stored_of(replanned(stored(old.text, old, [(1, 1, 5), (2, 1, 6)]), before, evolution.plan))
    (entry, data) = block.segments[0]
    columns = columns_of(evolution.plan, data, entry.groups)
    assert [column.to_pylist() for column in columns] == [[1], [None], [11]]


@pytest.mark.parametrize("precision", [10, 18, 19, 22, 38])
def test_a_sum_that_spark_has_given_up_is_null_when_it_goes_back(precision: int) -> None:
    """Also where no group of the segment has anything in its lower words, which are not written then."""
    query = Query(10, 10, 0, (("int64", True), (f"decimal({precision},0)", True)), (1,), (("sum", 2),))
    plan = PlanIdentity(PlanSpec.decode(query.text), ("k", "v"))
    total = pa.decimal128(min(38, precision + 10), 0)
    given_up = [pa.array([None], total), pa.array([False])]
    at = np.zeros(1, np.int64)
    states = [buffer for state in SparkBuffers(plan, given_up, 1).states() for buffer in state(at)]
    key = [b"", np.array([1], np.int64).tobytes()]
    columns = columns_of(plan, joined([*key, *states]), 1)
    assert [column.to_pylist() for column in columns] == [[1], [None], [False]]
