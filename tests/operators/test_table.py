"""The table of operators is all that tells one from another: whoever runs them asks none what it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslash.operators.aggregation import AggregationPlan
from pyslash.operators.keyed_aggregation import KeyedAggregationPlan
from pyslash.operators.table import OPERATORS, plan_types_of
from pyslash.plan.operator import OperatorPlan

PACKAGE = Path(__file__).resolve().parents[2] / "pyslash"
ASKED = ("isinstance", "issubclass", "type")


def kinds(of: type) -> Iterator[str]:
    """The names of a class and of all that are made of it."""
    yield of.__name__
    for kind in of.__subclasses__():
        yield from kinds(kind)


def test_each_operator_reads_a_node_by_a_plan_of_its_own() -> None:
    plans = [operator.plan_type for operator in OPERATORS]
    assert len(set(plans)) == len(OPERATORS)
    assert all(plan in plan_types_of(plan.node) for plan in plans)
    assert plan_types_of("FlatMapGroupsWithStateExec") == []


def test_windows_are_taken_out_of_an_aggregation_before_they_are_keys() -> None:
    assert plan_types_of("StateStoreSaveExec") == [AggregationPlan, KeyedAggregationPlan]


@pytest.mark.parametrize("part", ["driver", "emit", "ingest", "migrate", "spark", "cluster", "inspect"])
def test_nobody_asks_an_operator_what_it_is(part: str) -> None:
    names = {name for operator in OPERATORS for name in kinds(operator)} | set(kinds(OperatorPlan))
    asked = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {ast.unparse(node)}"
        for path in (PACKAGE / part).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKED
        for argument in node.args
        if names & {name.id for name in ast.walk(argument) if isinstance(name, ast.Name)}
    ]
    assert not asked
