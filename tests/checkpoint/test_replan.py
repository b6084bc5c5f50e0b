"""State carried from a query to one with other aggregates, against the oracle of the native core's tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyslash import _native
from pyslash.checkpoint.block_file import StoredBlock, decode, encode
from pyslash.checkpoint.replan import check, replanned
from pyslash.errors import PlanMismatchError
from pyslash.plan.identity import PlanIdentity
from tests.native.arrow import read_all, to_batch, to_values
from tests.native.blocks import LONG_AGO, PREFIXES, new_arena, sealed
from tests.native.model import Functions, Query, Row, evaluate
from tests.native.strategies import VALUES

_FUNCTIONS = ("count", "min", "max")
_OF_NUMBERS = {"int": ("sum", "avg", "bit_and", "bit_xor"), "float": ("sum", "avg"), "decimal": ("sum", "avg")}
Names = tuple[str, ...]


def stored(query: Query, rows: list[Row]) -> StoredBlock:
    with new_arena(8 << 20) as arena:
        head = _native.Head(sealed(_native.Plan(query.text), arena, [to_batch(query, rows)]))
        (block,) = decode(encode(query.text, [arena.view(head.arena_offset, head.length)]), "file")
        return block


def merged(query: Query, blocks: list[bytes], windows: list[int]) -> list[tuple[Any, ...]]:
    plan = _native.Plan(query.text)
    merger = _native.Merger(plan, windows)
    for block in blocks:
        for at, length in _native.Head(block).ranges(LONG_AGO, -LONG_AGO, 0, PREFIXES):
            aligned = pa.allocate_buffer(length)
            memoryview(aligned).cast("B")[:] = block[at : at + length]
            merger.add(block, at, aligned)
    return to_values(read_all(merger, plan))


@st.composite
def changes(draw: st.DrawFn) -> tuple[Query, Names, Query, Names, list[Row], list[Row]]:
    """A query, another one with the same key, and rows that each has read, as (time, key, value columns ...)."""
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    sides: list[list[tuple[str, tuple[str, bool], tuple[str, ...]]]] = [[], []]
    for index, kind in enumerate(kinds):
        allowed = (*_FUNCTIONS, *(one for start, of in _OF_NUMBERS.items() if kind.startswith(start) for one in of))
        functions = draw(st.lists(st.sampled_from(allowed), min_size=1, max_size=3, unique=True))
        fate = draw(st.sampled_from(["kept", "dropped", "added"]))
        for side, present in enumerate((fate != "added", fate != "dropped")):
            if present:
                kept = draw(st.lists(st.sampled_from(functions), min_size=1, unique=True)) if side else functions
                sides[side].append((f"c{index}", (kind, True), tuple(kept)))
    sides[1] = draw(st.permutations(sides[1]))
    queries = []
    for side in sides:
        aggregates = [(function, place) for place, (_, _, used) in enumerate(side, 2) for function in used]
        columns = (("int64", True), *(column for _, column, _ in side))
        queries.append(Query(10, 5, 0, columns, (1,), (*aggregates, ("count", None))))
    rows = [
        draw(
            st.lists(
                st.tuples(
                    st.integers(0, 40),
                    st.none() | st.integers(0, 3),
                    *(st.none() | VALUES[column[0]] for _, column, _ in side),
                ),
                min_size=1,
                max_size=8,
            )
        )
        for side in sides
    ]
    before, now = (("k", *(name for name, _, _ in side)) for side in sides)
    return queries[0], before, queries[1], now, rows[0], rows[1]


@given(changes())
@settings(deadline=None, max_examples=300)
def test_what_both_keep_is_kept_and_the_rest_begins_anew(
    case: tuple[Query, Names, Query, Names, list[Row], list[Row]],
) -> None:
    old, old_names, new, new_names, old_rows, new_rows = case
    before, now = PlanIdentity(old.text, old_names), PlanIdentity(new.text, new_names)
    block = replanned(stored(old, old_rows), before, now)
    later = stored(new, new_rows)
    whole = later.head + b"".join(bytes(data) for _, data in later.segments)
    # To the new query, the old rows have its columns where the old query had them too, and null elsewhere.
    seen = [
        (row[0], *(row[1 + old_names.index(name)] if name in old_names else None for name in new_names))
        for row in old_rows
    ]
    expected = evaluate(new, [*seen, *new_rows], LONG_AGO)
    windows = sorted({group[0] for group in expected})
    found = {row[: 2 + len(new.keys)]: row[2 + len(new.keys) :] for row in merged(new, [block, whole], windows)}
    assert {group: tuple(map(_near, row)) for group, row in found.items()} == {
        group: tuple(map(_near, row)) for group, row in expected.items()
    }


def _near(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) else value


V = Query(10, 10, 0, (("int64", True), ("int32", True)), (1,), (("sum", 2),))


@pytest.mark.parametrize(
    ("now", "columns", "told"),
    [
        (replace(V, size=20, slide=20), "kv", "the window: "),
        (replace(V, columns=(("string", True), ("int32", True))), "kv", r"key 1: k \(int64\) -> k \(string\)"),
        (replace(V, keys=(1, 2)), "kv", "a key added: v"),
        (replace(V, columns=(("int64", True), ("int64", True))), "kv", "v: int32 -> int64"),
        (replace(V, columns=(("int64", True), ("int32", False))), "kv", "v could be null"),
        (replace(V, columns=(("int64", True), ("int32", False))), "kw", r"sum\(w\) is new, and w is never null"),
        (replace(V, aggregates=(("sum", 2), ("max", 2))), "kv", r"max\(v\) is new, but v has a history"),
        (replace(V, columns=(*V.columns, ("int32", True)), aggregates=(("sum", 2), ("sum", 3))), "kvv", "both v"),
    ],
)
def test_what_cannot_be_carried_over_is_refused(now: Query, columns: str, told: str) -> None:
    with pytest.raises(PlanMismatchError, match=told):
        check(PlanIdentity(V.text, ("k", "v")), PlanIdentity(now.text, tuple(columns)))


def test_a_column_that_may_be_null_from_now_on_was_not_before() -> None:
    old = replace(V, columns=(("int64", True), ("int32", False)))
    now = replace(V, aggregates=(("sum", 2), ("count", 2)))
    before, after = (PlanIdentity(query.text, ("k", "v")) for query in (old, now))
    block = replanned(stored(old, [(1, 1, 5), (2, 1, 6)]), before, after)
    assert merged(now, [block], [0]) == [(0, 10, 1, 11, 2)]


TWO = Functions(10, 10, 0, (("int64", True), ("string", True), ("int32", True)), (1,))
ROWS: list[Row] = [(1, 1, "a", 5), (2, 1, "b", 7), (3, 2, None, 1), (4, 3, "c", None)]


def test_functions_of_several_columns_are_carried_over() -> None:
    old = replace(TWO, lines=("max_by 2,3 0", "first 2 0", "count - 0"))
    now = replace(
        TWO, columns=(*TWO.columns, ("float64", True)), lines=("first 2 0", "var_pop 4 0", "max_by 2,3 0", "last 4 0")
    )
    before, after = PlanIdentity(old.text, ("k", "s", "v")), PlanIdentity(now.text, ("k", "s", "v", "x"))
    block = replanned(stored(old, ROWS), before, after)
    assert sorted(merged(now, [block], [0])) == [
        (0, 10, 1, "a", None, "b", None),
        (0, 10, 2, None, None, None, None),
        (0, 10, 3, "c", None, None, None),
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("max_by 3,2 0", r"max_by\(v, s\) is new, but (v|s) has a history"),
        ("first 2 0 ignore_nulls", r"first\(s\) ignore_nulls is new, but s has a history"),
        ("max_by 2,4 0", r"max_by\(s, x\) is new, but s has a history"),
    ],
)
def test_functions_that_have_not_seen_the_rows_are_refused(line: str, told: str) -> None:
    old = replace(TWO, lines=("max_by 2,3 0", "first 2 0"))
    now = replace(old, columns=(*TWO.columns, ("float64", True)), lines=(*old.lines, line))
    with pytest.raises(PlanMismatchError, match=told):
        check(PlanIdentity(old.text, ("k", "s", "v")), PlanIdentity(now.text, ("k", "s", "v", "x")))


def test_beside_buffers_of_spark_rows_are_counted_otherwise() -> None:
    count = "column int64 1\nkey 1\naggregate count - 0\n"
    collect = "column int64 1\ncolumn binary 1\nkey 1\naggregate count - 0\naggregate collect 2 0\n"
    head = "pyslash-plan 1\nwindow 10 10 0\n"
    without = PlanIdentity(head + count, ("k",), "ts")
    having = PlanIdentity(head + collect, ("k", "buffer of median(v)"), "ts")
    for before, now in ((without, having), (having, without)):
        with pytest.raises(PlanMismatchError, match="buffers of Spark were added or dropped"):
            check(before, now)
    check(having, having)
