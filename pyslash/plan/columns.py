"""The columns of an operator's input that cross into native code: what several places read is carried once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyslash.plan.catalyst import JavaObject
from pyslash.plan.reasons import Uncovered
from pyslash.plan.spec import ColumnSpec
from pyslash.plan.types import native_type


@dataclass(frozen=True)
class Column:
    """A column that crosses into native code."""

    type: str
    nullable: bool
    sql: str
    spark_type: str = ""
    """Of a column of bytes: the type whose values they are, without the names of fields."""

    @property
    def spec(self) -> ColumnSpec:
        """As a plan has it."""
        return ColumnSpec(self.type, self.nullable)


class InputColumns:
    """Collects them. `slots` says of each column where the operator has it among all that it reads: in several places,
    if several of them read the same.
    """

    def __init__(self, operator: JavaObject, *, first: Iterable[Column] = (), all_nullable: bool = False) -> None:
        """Of a `StreamingOperator`; `first` ones have no slot; `all_nullable`: any may be null."""
        self.columns = [*first]
        self.slots: list[list[int]] = []
        self._operator = operator
        self._all_nullable = all_nullable
        self._carried: list[JavaObject] = []

    def separate(self) -> None:
        """What is added from now on is carried besides, though the same is there."""
        self._carried = []

    def add(self, slot: int, expression: JavaObject, what: str) -> int:
        """Index (1-based) of the expression's column.

        Raises:
            Uncovered: native code cannot have `what`, which the message says.
        """
        without_slot = len(self.columns) - len(self.slots)
        for index, known in enumerate(self._carried, len(self.columns) - len(self._carried) + 1):
            if known.semanticEquals(expression):
                self.slots[index - 1 - without_slot].append(slot)
                return index
        if not expression.deterministic():
            raise Uncovered(f"{what} is not deterministic")
        native = native_type(str(expression.dataType().simpleString()), what)
        nullable = self._all_nullable or bool(expression.nullable())
        sql, kind = self._operator.describe(expression), self._operator.typeInBytes(expression)
        self.columns.append(Column(native, nullable, str(sql), str(kind)))
        self.slots.append([slot])
        self._carried.append(expression)
        return len(self.columns)
