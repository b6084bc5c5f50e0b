"""The user's function, and what it is called with."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyslash.operators.transform.state.variables import Variable

# As the JVM names what it takes.
ROWS, FRAMES, GROUP_STATE = "rows", "frames", "group state"


@dataclass(frozen=True)
class UserFunction:
    """A processor or a function as PySpark has pickled it, and what it `takes`: `ROWS`, `FRAMES` or a `GROUP_STATE`.
    `deleted` are the variables whose state it deletes.

    Schemas are Spark's JSON of the key, of the input's columns, and of what the function gives.
    """

    command: bytes = field(repr=False)
    takes: str
    variables: tuple[Variable, ...]
    key_schema: str
    input_schema: str
    given_schema: str
    deleted: tuple[str, ...] = ()
