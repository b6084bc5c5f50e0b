"""The blocks of an epoch, as its tasks have reported them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyslash.errors import StateLostError
from pyslash.state.files.block_head import head_crc
from pyslash.state.receipt import Receipt
from pyslash.units import ArenaOffset


class ReportedBlocks:
    """Of each agent (by incarnation), its blocks: offset -> CRC of the head."""

    def __init__(self, blocks: Iterable[tuple[str, ArenaOffset, int]] = (), but: Collection[str] = ()) -> None:
        """`blocks`: (agent, offset, CRC of the head) each; those of the agents in `but` are left out.

        Raises:
            StateLostError: two blocks were reported in the same place, so one of them was freed in between.
        """
        self._of: dict[str, dict[ArenaOffset, int]] = {}
        for name, offset, head in blocks:
            if name not in but and self._of.setdefault(name, {}).setdefault(offset, head) != head:
                raise StateLostError(
                    f"two tasks of one epoch reported blocks at {offset} of agent {name[:8]}: the first is gone. "
                    "Start the query again"
                )

    @classmethod
    def by(cls, receipts: Iterable[Receipt]) -> ReportedBlocks:
        """Those of receipts.

        Raises:
            StateLostError: as for the class.
        """
        return cls((one.agent.incarnation, one.head.arena_offset, head_crc(one.raw_head)) for one in receipts)

    def __contains__(self, name: str) -> bool:
        return name in self._of

    def of(self, name: str) -> dict[ArenaOffset, int]:
        """The blocks of an agent."""
        return self._of.get(name, {})

    def pairs(self, name: str) -> list[list[int]]:
        """[offset, CRC of the head] of each block of an agent."""
        return [[offset, head] for offset, head in self.of(name).items()]
