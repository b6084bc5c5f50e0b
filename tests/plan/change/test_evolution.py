"""pyslash/plan/change/evolution.py: what continues, what begins, and what is refused.

`tests/state/test_replan.py` carries state over; `tests/streaming/test_plan_change.py` has Spark for an oracle.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyslash.errors import PlanMismatchError
from pyslash.plan.change.evolution import evolve
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.spec import PlanSpec
from tests.native.model import Functions, Query

V = Query(10, 10, 0, (("int64", True), ("int32", True)), (1,), (("sum", 2),))
TWO = Functions(10, 10, 0, (("int64", True), ("string", True), ("int64", True)), (1,))
BATCH = 7


def plan(query: Query, columns: str) -> PlanIdentity:
    return PlanIdentity(PlanSpec.decode(query.text), tuple(columns), "ts")


@pytest.mark.parametrize(
    ("now", "columns", "told"),
    [
        (replace(V, size=20, slide=20), "kv", "the window: 0:00:00.000010 -> 0:00:00.000020"),
        (replace(V, columns=(("string", True), ("int32", True))), "kv", r"key 1: k \(int64\) -> k \(string\)"),
        (replace(V, keys=(1, 2)), "kv", r"a key added: v \(int32\)"),
        (replace(V, keys=()), "kv", r"a key dropped: k \(int64\)"),
        (V, "wv", r"key 1: k \(int64\) -> w \(int64\)"),
        (replace(V, columns=(*V.columns, ("int32", True)), aggregates=(("sum", 2), ("sum", 3))), "kvv", "both v"),
    ],
)
def test_what_no_projection_bridges_is_refused_by_its_name(now: Query, columns: str, told: str) -> None:
    with pytest.raises(PlanMismatchError, match=told):
        evolve(plan(V, "kv"), plan(now, columns), BATCH)


def test_another_event_time_is_refused() -> None:
    with pytest.raises(PlanMismatchError, match="the event time: ts -> at"):
        evolve(plan(V, "kv"), replace(plan(V, "kv"), time="at"), BATCH)


def test_sessions_with_another_end_are_refused() -> None:
    def sessions(gap: int, end: str) -> PlanIdentity:
        own = "column timestamp 1\n" if gap == 0 else ""
        columns = f"column int64 1\nkey {1 if gap else 2}\naggregate count - 0\n"
        return PlanIdentity(
            PlanSpec.decode(f"pyslash-plan 1\nwindow 1 1 0\nsession {gap} 0\n{own}{columns}"),
            ((end,) if gap == 0 else ()) + ("k",),
            "ts",
        )

    with pytest.raises(PlanMismatchError, match="sessions: 0:00:05 -> 0:00:07"):
        evolve(sessions(5_000_000, ""), sessions(7_000_000, ""), BATCH)
    with pytest.raises(PlanMismatchError, match=r"the end of a row's session: ts \+ d -> ts \+ 2 d"):
        evolve(sessions(0, "ts + d"), sessions(0, "ts + 2 d"), BATCH)


def test_a_key_may_cease_to_be_null_but_not_begin_to() -> None:
    never = replace(V, columns=(("int64", False), ("int32", True)))
    assert evolve(plan(V, "kv"), plan(never, "kv"), BATCH).plan == plan(V, "kv")
    with pytest.raises(PlanMismatchError, match=r"key 1: k \(int64, never null\) -> k \(int64\)"):
        evolve(plan(never, "kv"), plan(V, "kv"), BATCH)


@pytest.mark.parametrize(
    ("lines", "gained"),
    [
        (("max_by 3,2 0",), "max_by(v, s)"),
        (("first 2 0 ignore_nulls",), "first(s) ignore_nulls"),
        (("max_by 2,4 0",), "max_by(s, x)"),
        (("count 2 0",), "count(s)"),  # first() keeps no number of nulls
        (("approx_count_distinct 3 0 9",), "approx_count_distinct(v) 9"),
    ],
)
def test_an_aggregate_without_its_states_has_columns_of_its_own(lines: tuple[str, ...], gained: str) -> None:
    old = replace(TWO, lines=("max_by 2,3 0", "first 2 0", "approx_count_distinct 3 0 10"))
    columns = (("int64", True), ("string", True), ("int64", False), ("float64", False))
    now = replace(old, columns=columns, lines=(*old.lines, *lines))
    evolution = evolve(plan(old, "ksv"), plan(now, "ksvx"), BATCH)
    assert evolution.gained == ((gained, BATCH),)
    own = [column for column in evolution.plan.inputs if column.first_batch]
    assert [(column.first_batch, column.nullable) for column in own] == [(BATCH, True)] * len(own)
    assert {evolution.sources[evolution.plan.inputs.index(column)] for column in own} <= {2, 3, 4}


def test_a_function_over_another_type_is_another_function() -> None:
    wider = replace(V, columns=(("int64", True), ("int64", True)))
    evolution = evolve(plan(V, "kv"), plan(wider, "kv"), BATCH)
    assert (evolution.gained, evolution.dropped) == ((("sum(v)", BATCH),), ("sum(v)",))


def test_what_becomes_of_an_overflow_is_no_matter_of_state() -> None:
    evolution = evolve(plan(V, "kv"), plan(replace(V, ansi=True), "kv"), BATCH)
    assert (evolution.gained, evolution.dropped) == ((), ())
    assert "aggregate sum 2 1" in evolution.plan.text


@pytest.mark.parametrize("words", ["nan", "unguarded", "nan,unguarded", "own"])
def test_which_release_of_spark_ran_a_statistic_is_no_matter_of_state(words: str) -> None:
    doubles = replace(TWO, columns=(("int64", True), ("float64", True), ("float64", True)))
    lines = ("stddev_samp 2 0", "corr 2,3 1", "regr_slope 2,3 0")
    before, now = (replace(doubles, lines=tuple(f"{line} {word}".rstrip() for line in lines)) for word in (words, ""))
    for old, new in ((before, now), (now, before)):
        found = evolve(plan(old, "kxy"), plan(new, "kxy"), BATCH)
        assert (found.plan.text, found.gained, found.dropped) == (new.text, (), ())


def test_a_deduplication_may_have_other_columns() -> None:
    def unique(*lines: str) -> PlanIdentity:
        columns = "".join("column int64 1\n" for _ in range(len(lines) + 1))
        text = "pyslash-plan 1\nwindow 10 10 0\ndeduplicate\n" + columns + "key 1\n" + "".join(lines)
        return PlanIdentity(PlanSpec.decode(text), ("k", "v", "w")[: len(lines) + 1], "ts")

    evolution = evolve(unique("aggregate first 2 0\n"), unique("aggregate first 2 0\n", "aggregate first 3 0\n"), 7)
    assert evolution.gained == ()
    assert evolution.plan.first_batch == ()


@pytest.mark.parametrize(
    "kept", ["aggregate first 3 0\n", "aggregate max 3 0\n"], ids=["for all time", "within the watermark"]
)
def test_a_deduplication_may_name_its_keys_in_another_order(kept: str) -> None:
    def unique(*columns: str) -> PlanIdentity:
        types = "".join(f"column {'string' if column == 's' else 'int64'} 1\n" for column in columns)
        text = f"pyslash-plan 1\nwindow 10 10 0\ndeduplicate\n{types}key 1\nkey 2\n{kept}"
        return PlanIdentity(PlanSpec.decode(text), columns, "ts")

    before = unique("k", "s", "v")
    evolution = evolve(before, unique("s", "k", "v"), BATCH)
    assert evolution.plan == before
    assert evolution.keeps_blocks
    assert (evolution.keys, evolution.sources) == ((1, 0), (2, 1, 3))
    assert evolve(before, before, BATCH).keys == ()
    with pytest.raises(PlanMismatchError, match="key 1: k "):
        evolve(before, unique("v", "s", "k"), BATCH)


def test_state_that_was_sparks_tells_counts_only_where_spark_counted() -> None:
    before = replace(plan(V, "kv"), is_adopted=True)
    again = evolve(before, plan(V, "kv"), BATCH)
    assert again.plan == before
    assert again.keeps_blocks
    counting = evolve(before, plan(replace(V, aggregates=(("sum", 2), ("avg", 2), ("count", 2))), "kv"), BATCH)
    assert counting.gained == (("avg(v)", BATCH), ("count(v)", BATCH))
    assert counting.plan.is_adopted
    every = replace(V, aggregates=(("count", None),))
    with pytest.raises(PlanMismatchError, match=r"count\(\*\) is new, and plain Spark"):
        evolve(before, plan(every, "kv"), BATCH)
    adopted = replace(plan(replace(every, columns=V.columns[:1]), "k"), is_adopted=True)
    assert evolve(adopted, plan(replace(V, aggregates=(*every.aggregates, *V.aggregates)), "kv"), BATCH).gained == (
        ("sum(v)", BATCH),
    )


def test_beside_buffers_of_spark_rows_are_counted_otherwise() -> None:
    count = "column int64 1\nkey 1\naggregate count - 0\n"
    collect = "column int64 1\ncolumn binary 1\nkey 1\naggregate count - 0\naggregate collect 2 0\n"
    head = "pyslash-plan 1\nwindow 10 10 0\n"
    without = PlanIdentity(PlanSpec.decode(head + count), ("k",), "ts")
    having = PlanIdentity(PlanSpec.decode(head + collect), ("k", "buffer of median(v)"), "ts")
    for before, now in ((without, having), (having, without)):
        with pytest.raises(PlanMismatchError, match=r"buffer of median\(v\)\) (is the first|was the last) function"):
            evolve(before, now, BATCH)
    assert evolve(having, having, BATCH).keeps_blocks
