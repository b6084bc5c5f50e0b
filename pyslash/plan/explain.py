"""`pyslash.explain`: the plan of a query as a user reads it."""

from __future__ import annotations

from collections.abc import Callable

from pyslash.plan.operators import Aggregation
from pyslash.plan.reasons import Uncovered


def explain(match: Callable[[], Aggregation], outlook: Callable[[Aggregation], list[str]]) -> str:
    """How pyslash would run the query, or why it would not; `outlook` adds lines to one that is covered."""
    try:
        operator = match()
        return "\n".join([_covered(operator), *(f"  {line}" for line in outlook(operator))])
    except Uncovered as reason:
        return f"pyslash: not covered, runs on plain Spark: {reason}"


def _covered(operator: Aggregation) -> str:
    head = f"pyslash: covered, in {operator.mode} mode, with any sink"
    told = [*operator.told, ("input", f"{len(operator.columns) + 1} columns a row cross into native code")]
    return "\n".join([head, *(f"  {name:<12}{text}" for name, text in told)])
