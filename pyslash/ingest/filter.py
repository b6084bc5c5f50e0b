"""Filters over Arrow batches, as `io.pyslash.ingest.FilterText` writes them, in SQL's three-valued logic.

A filter is a list: an operator and its operands, which are filters, `["column", name, type]` or
`["literal", type, value]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyslash.ingest.only_spark import arrow_type_of

Value = Any  # an array of a value a row, or a scalar

_OPERATIONS: dict[str, Callable[..., Value]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
    "null": pc.is_null,
}


class Filter:
    """Several filters, all of which a row has to pass.

    Evaluated function by function: as one Arrow expression each batch would be an execution plan of its own, at 30 ns a
    row.
    """

    def __init__(self, texts: list[Any]) -> None:
        """Of a scan."""
        self._texts = texts

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that pass."""
        for text in self._texts:
            mask = _value(text, rows)
            if isinstance(mask, pa.Scalar):
                rows = rows if mask.as_py() else rows.slice(0, 0)
            elif mask.true_count < len(rows):
                rows = rows.filter(mask)
        return rows


def columns_of(texts: list[Any]) -> Iterator[tuple[str, str]]:
    """Names and types of the columns that filters read."""
    for kind, *operands in texts:
        if kind == "column":
            yield operands[0], operands[1]
        elif kind != "literal":
            yield from columns_of(operands)


def _value(text: list[Any], rows: pa.RecordBatch) -> Value:
    kind, *operands = text
    if kind == "column":
        return rows.column(operands[0])
    if kind == "literal":
        return _literal(*operands)
    if kind == "in":
        value = _value(operands[0], rows)
        found = pc.is_in(value, pa.array([_literal(*literal[1:]) for literal in operands[1:]]))
        return pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_()))  # Arrow has null in no set
    return _OPERATIONS[kind](*(_value(operand, rows) for operand in operands))


def _literal(spark_type: str, value: Any) -> pa.Scalar:
    """Spark keeps dates as days and times as microseconds."""
    return pa.scalar(value, arrow_type_of(spark_type))
