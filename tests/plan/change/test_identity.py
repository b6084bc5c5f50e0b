"""pyslash/plan/change/identity.py: in what two queries differ."""

from __future__ import annotations

import pytest

from pyslash.errors import PlanMismatchError
from pyslash.plan.change.evolution import evolve
from pyslash.plan.change.identity import PlanIdentity, differences
from pyslash.plan.spec import PlanSpec
from pyslash.units import Epoch

LINES = [
    "pyslash-plan 1",
    "window 10000000 5000000 0",
    "column int64 1",
    "column int32 0",
    "key 1",
    "aggregate sum 2 1",
    "aggregate count - 1",
]
COLUMNS = ("k", "v")


def plan(lines: list[str] = LINES, columns: tuple[str, ...] = COLUMNS) -> PlanIdentity:
    return PlanIdentity(PlanSpec.decode("\n".join(lines) + "\n"), columns)


def changed(old: str, *new: str) -> list[str]:
    at = LINES.index(old)
    return [*LINES[:at], *new, *LINES[at + 1 :]]


def test_the_same_is_the_same() -> None:
    assert differences(plan(), plan()) == []


@pytest.mark.parametrize(
    ("key", "is_same"),
    [
        ("(IF((trim(name) = ''), NULL, trim(name)))", True),
        ("(IF((_common_expr_0 = ''), NULL, _common_expr_0))", True),
        ("(IF((trim(name) = ''), NULL, trim(city)))", False),
        ("(IF((trim(name) = '-'), NULL, trim(name)))", False),
    ],
)
def test_names_of_sparks_own_making_stand_for_anything(key: str, is_same: bool) -> None:
    """Earlier builds wrote them, with the numbers of their application."""
    before = plan(columns=("(IF((_common_expr_12 = ''), NULL, _common_expr_12))", "v"))
    now = plan(columns=(key, "v"))
    assert (differences(before, now) == []) is is_same
    if is_same:
        assert evolve(before, now, Epoch(3)).keeps_blocks
    else:
        with pytest.raises(PlanMismatchError, match="_common_expr_12"):
            evolve(before, now, Epoch(3))


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (
            plan(changed("window 10000000 5000000 0", "window 10000000 10000000 0")),
            "0:00:10 sliding by 0:00:05 -> 0:00:10",
        ),
        (plan(changed("window 10000000 5000000 0", "window 10000000 5000000 1000000")), "from 0:00:01"),
        (
            plan(changed("window 10000000 5000000 0", "window 10000000 5000000 0", "deduplicate")),
            "the operator: aggregation -> deduplication",
        ),
        (plan(changed("column int64 1", "column string 1")), "key 1: k (int64) -> k (string)"),
        (plan(columns=("user", "v")), "key 1: k (int64) -> user (int64)"),
        (plan(changed("key 1", "key 1", "key 2")), "a key added: v (int32, never null)"),
        (plan(changed("key 1")), "a key dropped: k (int64)"),
        (plan(changed("aggregate sum 2 1")), "an aggregate dropped: sum(v)"),
        (plan(changed("aggregate sum 2 1", "aggregate sum 2 1", "aggregate max 2 1")), "an aggregate added: max(v)"),
        (plan(changed("aggregate sum 2 1", "aggregate sum 2 0")), "sum(v), when it overflows: an error -> no error"),
        (plan(changed("column int32 0", "column float64 0")), "sum(v): over int32 -> over float64"),
        (
            plan([*LINES[:-2], LINES[-1], LINES[-2]]),
            "the order of the aggregates: sum(v), count(*) -> count(*), s",
        ),
        (
            plan(changed("column int32 0", "column int32 1")),
            "k int64 v int32, never null -> k int64 v int32",
        ),
    ],
)
def test_a_change_is_one_line(now: PlanIdentity, expected: str) -> None:
    (line,) = differences(plan(), now)
    assert expected in line


def test_a_sum_of_another_column_is_another_sum() -> None:
    assert differences(plan(), plan(columns=("k", "w"))) == [
        "an aggregate dropped: sum(v)",
        "an aggregate added: sum(w)",
    ]


def test_joins_are_told_apart_by_what_they_join() -> None:
    lines = ["pyslash-plan 1", "window 60000000 60000000 0", "join", "column int8 0", *["column int64 0"] * 3]
    lines += ["column binary 0", "column binary 0", "key 5", "rows 0"]

    def joined(condition: str, rows: str) -> PlanIdentity:
        return plan(lines, ("INNER", "expires", "epoch", "evicted", condition, rows))

    before = joined("k = r_k", "(k bigint) AND (r_k bigint)")
    assert differences(before, before) == []
    assert differences(before, joined("k = r_k AND v > 1", before.columns[-1])) == [
        "the join: INNER ON k = r_k OF (k bigint) AND (r_k bigint) -> "
        "INNER ON k = r_k AND v > 1 OF (k bigint) AND (r_k bigint)"
    ]
    for now in (plan(), joined("k = r_k", "(k int) AND (r_k int)")):
        with pytest.raises(PlanMismatchError, match="the join"):
            evolve(before, now, 1)
