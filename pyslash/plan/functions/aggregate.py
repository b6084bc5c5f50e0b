"""What the file of a function gets, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyslash.plan.catalyst import JavaObject
from pyslash.plan.reasons import Uncovered
from pyslash.plan.types import NUMERIC, is_decimal

FOLDS = "folds"


@dataclass(frozen=True)
class Aggregate:
    """A native aggregate (docs/block-format.md). `ansi`: an overflow is an error; `parameter`: "" if it has none.

    `merges_anyhow`: of buffers, that their result does not depend on how rows are shared among them. `goes_by_order`:
    its result depends on the order of rows, as `last` does.
    """

    function: str
    ansi: bool
    sql: str
    parameter: str = ""
    merges_anyhow: bool = True
    goes_by_order: bool = False

    @property
    def is_buffer(self) -> bool:
        """Whether Spark's own code computes it, and native code keeps the buffers that it gives (docs/design/031)."""
        return self.function == "collect"

    @property
    def folds(self) -> bool:
        """Whether one buffer may stand for all that a group has, which are no longer kept then."""
        return self.is_buffer and self.parameter == FOLDS

    @property
    def is_finished_by_spark(self) -> bool:
        """Whether Spark's own code makes the result of a binary that native code gives."""
        return self.function in ("collect", "approx_count_distinct")


@dataclass(frozen=True)
class Call:
    """A call of an aggregate function in Spark's plan: Catalyst's object, its inputs' native types, and its SQL."""

    java: JavaObject
    types: tuple[str, ...]
    sql: str

    @property
    def eval_mode(self) -> str:
        """What happens when it overflows: LEGACY, ANSI or TRY."""
        return eval_mode(self.java)

    def expect_numbers(self) -> None:
        """Pass if it is over an integer, a float or a decimal; else `Uncovered` is raised."""
        if not (self.types[0] in NUMERIC or is_decimal(self.types[0])):
            raise Uncovered(f"{self.sql} over the type {self.types[0]} is not covered yet")


def eval_mode(expression: JavaObject) -> str:
    """LEGACY, ANSI or TRY."""
    try:
        return str(expression.evalMode().toString())
    except Exception:  # Sum keeps its mode in an evaluation context
        return str(expression.evalContext().evalMode().toString())


def named(function: str) -> Callable[[Call], Aggregate]:
    """Reads calls of which native code need know nothing but this name and the inputs."""

    def read(call: Call) -> Aggregate:
        return Aggregate(function, False, call.sql)

    return read
