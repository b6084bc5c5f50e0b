"""The plan of rows that belongs to a query's plan: what its update tasks follow where rows are repartitioned."""

from __future__ import annotations

MOST_BITS = 12


def plan_of_rows(text: str, bits: int) -> str:
    r"""The same columns and keys; rows in 2**bits buckets of hash prefixes instead of aggregates.

    >>> plan_of_rows("pyslash-plan 1\nwindow 10 10 0\ncolumn int64 1\nkey 1\naggregate count - 0\n", 3)
    'pyslash-plan 1\nwindow 10 10 0\ncolumn int64 1\nkey 1\nrows 3\n'
    """
    kept = [line for line in text.splitlines() if not line.startswith("aggregate ")]
    return "".join(f"{line}\n" for line in [*kept, f"rows {bits}"])
