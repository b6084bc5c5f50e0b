"""The text of a plan, as native code reads it."""

from __future__ import annotations

from pyslash.plan.columns import Column


def plan_text(window_lines: list[str], columns: list[Column], keys: list[int], calls: list[str]) -> str:
    """The plan as native code reads it; docs/block-format.md has the grammar.

    Args:
        window_lines: what stands before the columns.
        columns: of the input, but the event time.
        keys: columns (1-based).
        calls: what stands behind the keys.
    """
    lines = ["pyslash-plan 1", *window_lines]
    lines += [f"column {c.type} {int(c.nullable)}" for c in columns]
    lines += [f"key {index}" for index in keys]
    return "\n".join([*lines, *calls]) + "\n"
