"""What an agent tells a driver of its blocks: what has come and gone since it was last asked."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from pyslash.units import ArenaOffset


@dataclass(frozen=True)
class VersionEdit:
    """What makes one version of an agent's share of the state of the one before it.

    `number` names the version that it makes. `gone` are offsets of blocks, which go before those of `heads` come, each
    by its offset. `whole`: what was known before is void. `more`: the rest follows with the next edit.
    """

    number: int = field(compare=False)
    whole: bool
    gone: frozenset[ArenaOffset]
    heads: Mapping[ArenaOffset, bytes]
    more: bool = False

    def then(self, later: VersionEdit) -> VersionEdit:
        """Both, one after the other."""
        if later.whole:
            return later
        kept = {offset: head for offset, head in self.heads.items() if offset not in later.gone}
        return VersionEdit(later.number, self.whole, self.gone | later.gone, {**kept, **later.heads}, later.more)

    def record(self) -> dict[str, Any]:
        """For JSON; heads are Base64."""
        heads = [[offset, base64.b64encode(head).decode()] for offset, head in self.heads.items()]
        return {
            "version": self.number,
            "whole": self.whole,
            "gone": list(self.gone),
            "heads": heads,
            "more": self.more,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Inverse of `record`; other fields may stand beside its own."""
        heads = {offset: base64.b64decode(head) for offset, head in record["heads"]}
        return cls(record["version"], record["whole"], frozenset(record["gone"]), heads, record["more"])
