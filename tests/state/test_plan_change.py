"""What a query that has changed continues with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyslash.errors import PlanMismatchError
from pyslash.operators.transform.plan import _SPEC
from pyslash.plan.identity import OF_A_PROCESSOR, PlanIdentity
from pyslash.state.plan_change import evolution_of


def processor(key: str = "k:string", variables: str = "v value<struct<n:bigint>>") -> PlanIdentity:
    return PlanIdentity(_SPEC, (f"the state of struct<{key}>", variables), OF_A_PROCESSOR)


@pytest.mark.parametrize("change", ["exact", "names", "aggregates"])
@pytest.mark.parametrize(
    ("query", "why"),
    [
        (
            processor(variables="v value<struct<n:string>>"),
            "variables: .*n:bigint>> -> v value<struct<n:string>>",
        ),
        (processor(variables=""), "variables: v value<struct<n:bigint>> -> none"),
        (processor(key="k:int"), r"key 1: the state of struct<k:string> .* -> the state of struct<k:int>"),
    ],
)
def test_a_processor_has_the_variables_and_keys_that_its_state_has(query: PlanIdentity, why: str, change: str) -> None:
    """Whatever `spark.slash.plan.change` allows: the names tell the types, which nothing else does."""
    last: Any = SimpleNamespace(identity=processor())
    assert evolution_of(last, processor(), change, 1).keeps_blocks
    with pytest.raises(PlanMismatchError, match=why) as told:
        evolution_of(last, query, change, 1)
    assert "spark.slash.plan.change" not in str(told.value)
