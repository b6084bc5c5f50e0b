"""One aggregate of a query: which native aggregate it is, over an input expression of Spark's."""

from __future__ import annotations

from dataclasses import dataclass

from pyslash.plan.catalyst import JavaObject, name_of
from pyslash.plan.reasons import Uncovered
from pyslash.plan.types import NUMERIC, is_decimal, native_type

_NATIVE = {"Count": "count", "Sum": "sum", "Average": "avg", "Min": "min", "Max": "max"}


@dataclass(frozen=True)
class Aggregate:
    """A native aggregate; `ansi`: an overflow is an error."""

    function: str
    ansi: bool
    sql: str


def aggregate_of(expression: JavaObject, value: JavaObject | None) -> Aggregate:
    """The native aggregate of a Catalyst `AggregateExpression`.

    Args:
        expression: as Spark's optimizer has left it.
        value: what it reads of a row, as `io.pyslash.StreamingAggregate` tells; None: it counts every row.

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
    if value is not None:
        if not value.deterministic():
            raise Uncovered(f"{sql} is over an expression that is not deterministic")
        if name != "Count":
            _check_type(_NATIVE[name], native_type(str(value.dataType().simpleString()), sql), sql)
    return Aggregate(_NATIVE[name], mode == "ANSI", sql)


def _eval_mode(call: JavaObject) -> str:
    try:
        return str(call.evalMode().toString())
    except Exception:  # Sum keeps its mode in an evaluation context
        return str(call.evalContext().evalMode().toString())


def _check_type(function: str, native: str, sql: str) -> None:
    if function in ("sum", "avg") and not (native in NUMERIC or is_decimal(native)):
        raise Uncovered(f"{sql} over the type {native} is not covered yet")
