"""Catalyst's trees seen from Python: the few ways in which pyslash reads expressions and plans.

Everything here goes through py4j, at a fraction of a millisecond for each call. So the plan of a query is read once,
when the query starts, and an epoch makes one call to `io.pyslash.Bridge`.
"""

from __future__ import annotations

from typing import Any

JavaObject = Any


def name_of(node: JavaObject) -> str:
    """The class name of a tree node without its package: `ProjectExec`, `AttributeReference`."""
    return str(node.getClass().getSimpleName())


def items(seq: JavaObject) -> list[JavaObject]:
    """A Scala `Seq` as a list."""
    return [seq.apply(i) for i in range(seq.size())]


def elements(found: JavaObject) -> list[JavaObject]:
    """A Java `List` as a list; py4j's own iterator finds its end by an exception, which costs a scan of every jar."""
    return [found.get(i) for i in range(found.size())]


def children(node: JavaObject) -> list[JavaObject]:
    """The children of an expression or plan."""
    return items(node.children())


def optional(option: JavaObject) -> JavaObject | None:
    """A Scala `Option` as a value or None."""
    return option.get() if option.isDefined() else None
