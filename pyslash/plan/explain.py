"""`pyslash.explain`: the plan of a query as a user reads it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from pyspark.sql import DataFrame

from pyslash.plan.aggregation import AggregationPlan, plan_aggregation
from pyslash.plan.reasons import Uncovered


def explain(df: DataFrame, outlook: Callable[[AggregationPlan], list[str]]) -> str:
    """How pyslash would run the query, or why it would not; `outlook` adds lines to a plan that is covered."""
    try:
        plan = plan_aggregation(df)
        return "\n".join([_covered(plan), *(f"  {line}" for line in outlook(plan))])
    except Uncovered as reason:
        return f"pyslash: not covered, runs on plain Spark: {reason}"


def _covered(plan: AggregationPlan) -> str:
    window = plan.window
    size, slide, pane = (timedelta(microseconds=us) for us in (window.size_us, window.slide_us, window.pane_us))
    lines = [
        "pyslash: covered (append mode; every sink)",
        f"  window      {size} sliding by {slide}, panes of {pane}",
        *(f"  key         {key.sql.removeprefix('grouping expression ')}: {key.type}" for key in plan.keys),
        *(f"  aggregate   {aggregate.sql}" for aggregate in plan.aggregates),
        f"  input       {len(plan.columns) + 1} columns a row cross into native code",
    ]
    return "\n".join(lines)
