"""The table of operators is all that tells one from another: whoever runs them asks none what it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslash.operators.table import OPERATORS, plan_type_of
from pyslash.plan.operator import OperatorPlan

PACKAGE = Path(__file__).resolve().parents[2] / "pyslash"
ASKED = ("isinstance", "issubclass", "type")


def kinds(of: type) -> Iterator[str]:
    """The names of a class and of all that are made of it."""
    yield of.__name__
    for kind in of.__subclasses__():
        yield from kinds(kind)


def test_each_operator_executes_a_node_of_its_own() -> None:
    nodes = [operator.plan_type.node for operator in OPERATORS]
    assert len(set(nodes)) == len(OPERATORS)
    assert [plan_type_of(node) for node in nodes] == [operator.plan_type for operator in OPERATORS]
    assert plan_type_of("FlatMapGroupsWithStateExec") is None


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
