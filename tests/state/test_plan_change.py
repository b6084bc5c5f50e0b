"""What a query that has changed continues with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyslash.errors import PlanMismatchError
from pyslash.operators.transform.plan import _SPEC
from pyslash.plan.change.identity import OF_A_PROCESSOR, PlanIdentity
from pyslash.plan.change.processor import KeptVariable, ProcessorState
from pyslash.plan.spec import ANY_WINDOW, AggregateSpec, ColumnSpec, PlanSpec
from pyslash.state.plan_change import evolution_of


def value(name: str = "v", type: str = "bigint", expires: bool = False) -> KeptVariable:
    return KeptVariable(name, "value", (("n", type),), (), expires)


def processor(*variables: KeptVariable, key: str = "k:string", deleted: tuple[str, ...] = ()) -> PlanIdentity:
    state = ProcessorState(variables, deleted)
    return PlanIdentity(_SPEC, (f"the state of struct<{key}>", state.text), OF_A_PROCESSOR)


@pytest.mark.parametrize("change", ["exact", "names", "aggregates"])
@pytest.mark.parametrize(
    ("query", "why"),
    [
        (processor(value(type="string")), r": v value<struct<n:bigint>> -> v value<struct<n:string>>"),
        (processor(value(expires=True)), r": v value<struct<n:bigint>> -> v value<struct<n:bigint>>, for a time"),
        (processor(value(), key="k:int"), r"key 1: the state of struct<k:string> .* -> the state of struct<k:int>"),
    ],
)
def test_a_processor_has_the_types_that_its_state_has(query: PlanIdentity, why: str, change: str) -> None:
    """Whatever `spark.slash.plan.change` allows: the declarations tell the types, which nothing else does."""
    last: Any = SimpleNamespace(identity=processor(value()))
    assert evolution_of(last, processor(value()), change, 1).keeps_blocks
    with pytest.raises(PlanMismatchError, match=why) as told:
        evolution_of(last, query, change, 1)
    assert "spark.slash.plan.change" not in str(told.value)


def test_a_variable_that_is_not_declared_is_remembered_until_it_is_deleted() -> None:
    last: Any = SimpleNamespace(identity=processor(value("a"), value("b")))
    evolution = evolution_of(last, processor(value("b"), value("c")), "exact", 1)
    assert (evolution.plan, evolution.dropped) == (processor(value("a"), value("b"), value("c")), ())
    last.identity = evolution.plan
    with pytest.raises(PlanMismatchError, match="a variable of the processor: a value"):
        evolution_of(last, processor(value("a", "int")), "exact", 2)
    now = processor(value("b"), value("c"), deleted=("a", "z"))
    evolution = evolution_of(last, now, "exact", 2)
    assert (evolution.plan, evolution.dropped, evolution.keeps_blocks) == (now, ("a",), True)
    last.identity = evolution.plan
    assert evolution_of(last, now, "exact", 3).dropped == ()
    assert evolution_of(last, processor(value("a", "int")), "exact", 3).keeps_blocks


def joined(how: str = "INNER", condition: str = "k = r_k") -> PlanIdentity:
    columns = (ColumnSpec("binary", False),) * 6
    spec = PlanSpec(window=ANY_WINDOW, columns=columns, keys=(5,), row_bits=0, joins=True)
    return PlanIdentity(spec, (how, "expires", "epoch", "evicted", condition, "k, v"), "the watermark")


def grouped(key: str, call: str, kind: str = "") -> PlanIdentity:
    """By a key whose values are bytes, over a function in buffers of Spark's."""
    columns = (ColumnSpec("binary", True), ColumnSpec("binary", True))
    spec = PlanSpec(window=ANY_WINDOW, columns=columns, keys=(1,), aggregates=(AggregateSpec("collect", (2,)),))
    return PlanIdentity(spec, (key, call), "ts", types=("timestamp", kind, ""))


@pytest.mark.parametrize(
    ("before", "query", "continues"),
    [
        (grouped("s", "collect_list(v)"), grouped("renamed", "collect_list(v)"), True),
        (grouped("s", "collect_list(v)", "STRUCT<INT>"), grouped("renamed", "collect_list(v)", "STRUCT<INT>"), True),
        (grouped("s", "collect_list(v)", "STRUCT<INT>"), grouped("renamed", "collect_list(v)", "STRUCT<DATE>"), False),
        (grouped("s", "collect_list(v)"), grouped("s", "percentile(v, 0.5)"), False),
        (joined(), joined("LEFT OUTER"), False),
        (joined(), joined(condition="k = r_k AND v > 0"), False),
    ],
)
def test_other_names_are_no_other_values(before: PlanIdentity, query: PlanIdentity, continues: bool) -> None:
    """Plans alone tell no join from another, and not what bytes are values of."""
    last: Any = SimpleNamespace(identity=before)
    if continues:
        assert evolution_of(last, query, "names", 1).keeps_blocks
    else:
        with pytest.raises(PlanMismatchError):
            evolution_of(last, query, "names", 1)


def summed(*columns: str) -> PlanIdentity:
    """The sum of each by k."""
    sums = tuple(AggregateSpec("sum", (at,)) for at in range(2, 2 + len(columns)))
    spec = PlanSpec(
        window=ANY_WINDOW, columns=(ColumnSpec("int64", True),) * (1 + len(columns)), keys=(1,), aggregates=sums
    )
    return PlanIdentity(spec, ("k", *columns), "ts")


@pytest.mark.parametrize("change", ["exact", "names"])
def test_what_has_changed_its_place_has_no_other_name(change: str) -> None:
    """The setting may have been left from an earlier change: by place, each sum would go on as the other."""
    last: Any = SimpleNamespace(identity=summed("a", "b"))
    moved = evolution_of(last, summed("b", "a"), change, 5)
    assert (moved.plan.columns, moved.gained, moved.keeps_blocks) == (("k", "b", "a"), (), False)
    if change == "names":
        assert evolution_of(last, summed("a", "c"), change, 5).keeps_blocks


def test_fields_of_structs_may_have_other_names() -> None:
    before = processor(value(type="array<struct<a:int,b:decimal(10,2)>>"))
    last: Any = SimpleNamespace(identity=before)
    assert evolution_of(last, processor(value(type="array<struct<x:int,b:decimal(10,2)>>")), "exact", 1).keeps_blocks
    with pytest.raises(PlanMismatchError, match="a variable of the processor: v value"):
        evolution_of(last, processor(value(type="array<struct<a:bigint,b:decimal(10,2)>>")), "exact", 1)
