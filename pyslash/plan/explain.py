"""`pyslash.explain`: the plan of a query as a user reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyslash.plan.operator import OperatorPlan
from pyslash.plan.reasons import Uncovered, fallback_of


class Explanation(str):
    """The text of an explanation that has been printed: a notebook or a prompt does not show it once more."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Its first words."""
        return f"<{self.partition(',')[0]}>"

    def _ipython_display_(self) -> None:
        """IPython shows nothing."""


def explain(match: Callable[[], Sequence[OperatorPlan]], paths: Callable[[OperatorPlan], list[tuple[str, str]]]) -> str:
    """How pyslash would run the query, or why it would not. `paths` adds lines to each covered operator."""
    try:
        operators = match()
        lines = [f"pyslash: covered, in {operators[-1].mode} mode, with any sink"]
        for index, operator in enumerate(operators):
            if len(operators) > 1:
                lines.append(f"operator {index}, {operator.node.removesuffix('Exec')}")
            lines += [f"  {name:<12}{text}" for name, text in operator.explain_lines]
            lines.append(f"  {'input':<12}{len(operator.columns) + 1} columns a row cross into native code")
            lines += [f"  {name:<12}{text}" for name, text in paths(operator)]
        return "\n".join(lines)
    except Uncovered as reason:
        fallback = fallback_of(reason)
        lines = [f"pyslash: not covered, runs on plain Spark: {reason}"]
        return "\n".join([*lines, f"  operator    {fallback.operator}", f"  would help  {fallback.help}"])
