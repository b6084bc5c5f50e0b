"""What the state of a processor in Python is told by, and which changes of a processor it survives: those of Spark."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from functools import cached_property

Fields = tuple[tuple[str, str], ...]
_NAME = re.compile(r"(?<=[<,])[^:<>,]+:")  # of a field within a type


@dataclass(frozen=True)
class KeptVariable:
    """A variable as far as its state goes. Fields are (name, Spark's type); those of a `key` are of a map alone."""

    name: str
    kind: str
    value: Fields
    key: Fields = ()
    expires: bool = False

    @property
    def sql(self) -> str:
        """As users read it."""
        rows = [f"struct<{','.join(f'{name}:{type}' for name, type in of)}>" for of in (self.key, self.value) if of]
        return f"{self.name} {self.kind}<{', '.join(rows)}>{', for a time' if self.expires else ''}"

    def can_be(self, now: KeptVariable) -> bool:
        """Whether its state can go on as that of this one: fields may have other names."""
        mine, others = ([[_NAME.sub("", type) for _, type in of] for of in (one.value, one.key)] for one in (self, now))
        return (self.kind, self.expires, mine) == (now.kind, now.expires, others)


@dataclass(frozen=True)
class ProcessorState:
    """`deleted` are the variables that the processor's `init` deletes. Spark itself looks at time and output modes."""

    variables: tuple[KeptVariable, ...]
    deleted: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """As a plan has it."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def of(cls, text: str) -> ProcessorState:
        """Inverse of `text`; of one written when variables could not change yet, nothing is known of them."""
        if not text.startswith("{"):
            return cls(())
        found = json.loads(text)
        variables = (
            KeptVariable(one["name"], one["kind"], _fields(one["value"]), _fields(one["key"]), one["expires"])
            for one in found["variables"]
        )
        return cls(tuple(variables), tuple(found["deleted"]))

    @cached_property
    def by_name(self) -> dict[str, KeptVariable]:
        """The variables."""
        return {one.name: one for one in self.variables}

    def obstacles(self, now: ProcessorState) -> list[str]:
        """Why a processor that declares this cannot go on with this state, as lines; nothing: it can."""
        both = [(self.by_name[one.name], one) for one in now.variables if one.name in self.by_name]
        return [
            f"a variable of the processor: {before.sql} -> {one.sql}" for before, one in both if not before.can_be(one)
        ]

    def continued(self, now: ProcessorState) -> tuple[ProcessorState, tuple[str, ...]]:
        """What there is state of from now on, and the variables whose state is deleted.

        A variable that the processor does not declare any more keeps its state, until an `init` deletes it.
        """
        kept = {name: one for name, one in self.by_name.items() if name not in now.deleted} | now.by_name
        dropped = tuple(name for name in now.deleted if name in self.by_name)
        return replace(now, variables=tuple(kept[name] for name in sorted(kept))), dropped


def _fields(pairs: list[list[str]]) -> Fields:
    return tuple((name, type) for name, type in pairs)
