"""One aggregate of a query: which native aggregate it is, over which input expression."""

from __future__ import annotations

from dataclasses import dataclass

from pyslash.plan.catalyst import Catalyst, JavaObject, children, items, name_of, optional
from pyslash.plan.reasons import Uncovered
from pyslash.plan.types import NUMERIC, is_decimal, native_type

_NATIVE = {"Count": "count", "Sum": "sum", "Average": "avg", "Min": "min", "Max": "max"}


@dataclass(frozen=True)
class Aggregate:
    """A native aggregate and what it reads; `input` is None for count(*)."""

    function: str
    input: JavaObject | None
    ansi: bool
    sql: str


def aggregate_of(catalyst: Catalyst, expression: JavaObject) -> Aggregate:
    """The native aggregate of a Catalyst `AggregateExpression`.

    Raises:
        Uncovered: the function, its type or its modifiers are not covered.
    """
    sql = str(expression.sql())
    call = expression.aggregateFunction()
    name = name_of(call)
    if name not in _NATIVE:
        raise Uncovered(f"the aggregate {sql} is not covered yet")
    if expression.isDistinct():
        raise Uncovered(f"DISTINCT in {sql} is not covered yet")
    mode = _eval_mode(call) if name in ("Sum", "Average") else "LEGACY"
    if mode == "TRY":
        raise Uncovered(f"{sql} (a try_ aggregate) is not covered yet")
    value = _count_input(catalyst, call) if name == "Count" else children(call)[0]
    condition = optional(expression.filter())
    if condition is not None:
        whole = value if value is not None else catalyst.literal(1, "int")
        value = catalyst.expression("If", condition, whole, catalyst.null_like(whole))
    if value is not None:
        if not value.deterministic():
            raise Uncovered(f"{sql} is over an expression that is not deterministic")
        if name != "Count":
            _check_type(_NATIVE[name], native_type(str(value.dataType().simpleString()), sql), sql)
    return Aggregate(_NATIVE[name], value, mode == "ANSI", sql)


def _count_input(catalyst: Catalyst, count: JavaObject) -> JavaObject | None:
    """Count's input: None where it counts every row, else an expression that is null where the row does not count."""
    nullable = [child for child in items(count.children()) if child.nullable()]
    if not nullable:
        return None
    condition = None
    for child in nullable:
        test = catalyst.expression("IsNotNull", child)
        condition = test if condition is None else catalyst.expression("And", condition, test)
    one = catalyst.literal(1, "int")
    try:
        native_type(str(nullable[0].dataType().simpleString()), "count")
        if len(nullable) == 1:
            return nullable[0]
    except Uncovered:
        pass  # a type that native code need not know to count it
    return catalyst.expression("If", condition, one, catalyst.null_like(one))


def _eval_mode(call: JavaObject) -> str:
    try:
        return str(call.evalMode().toString())
    except Exception:  # Sum keeps its mode in an evaluation context
        return str(call.evalContext().evalMode().toString())


def _check_type(function: str, native: str, sql: str) -> None:
    if function in ("sum", "avg") and not (native in NUMERIC or is_decimal(native)):
        raise Uncovered(f"{sql} over the type {native} is not covered yet")
